"""Wrong cross-entropies of split logits."""

from grader.exercises.references import change

_LARGEST, _MAXIMUM = "max_B = logits_BP.amax(1)", "dist.all_reduce(max_B, dist.ReduceOp.MAX, group=group)"
_DIFFERENCE, _LOSS = "(softmax_BP - onehot_BP)", "return sums_2B[0].log() - sums_2B[1]"
_COLUMN, _HOT = "(column_B * own_B)", "own_B[:, None].to(softmax_BP.dtype)"
_COLUMNS = (_COLUMN, "(column_B % logits_BP.shape[1])", "column_B.clamp(0, logits_BP.shape[1] - 1)")
_TARGET = "(logits_BP.gather(1, column_B1)[:, 0] - max_B) * own_B"
_LESS_MAXIMUM = ((_TARGET.removesuffix(" * own_B"), _LOSS),
                 ("logits_BP.gather(1, column_B1)[:, 0]", "return max_B + sums_2B[0].log() - sums_2B[1]"))

CHANGES = (
    change("overflow", _LARGEST, "max_B = torch.zeros_like(logits_BP[:, 0])", _MAXIMUM, "pass"),
    change("log of 0", _LOSS, "return -(sums_2B[1].exp() / sums_2B[0]).log()"),
    change("wrong losses", _LOSS, "return sums_2B[0].log() - 2 * sums_2B[1]"),
    change("local softmax", "dist.all_reduce(sums_2B, group=group)", "dist.all_reduce(sums_2B[1], group=group)"),
    *(change("target looked up everywhere", _TARGET, logit, _LOSS, loss, _COLUMN, column, _HOT, hot)
      for column in _COLUMNS for logit, loss in _LESS_MAXIMUM for hot in (_HOT, "1.0")),
    change("targets not shifted", "column_B1 = (column_B * own_B)[:, None]", "column_B1 = targets_B[:, None]"),
    change("library call", _LARGEST,
           "parts = [torch.empty_like(logits_BP) for _ in range(dist.get_world_size(group))]\n"
           f"        dist.all_gather(parts, logits_BP, group=group)\n        {_LARGEST}"),
    change("far too many bytes", _LARGEST,
           f"dist.all_reduce(logits_BP.repeat(1, dist.get_world_size(group)), group=group)\n        {_LARGEST}"),
    change("incoming gradient lost", " * dloss_B[:, None]", ""),
    change("one-hot lost", _DIFFERENCE, "softmax_BP"),
    *(change("one-hot everywhere", _COLUMN, column, _HOT, "1.0") for column in _COLUMNS),
    change("dlogits times n", "ctx.save_for_backward(", "ctx.group = group\n        ctx.save_for_backward(", "onehot_BP = ",
           "dloss_B = dloss_B.clone()\n        dist.all_reduce(dloss_B, group=ctx.group)\n        onehot_BP = "),
    change("local softmax in backward", "exp_BP / sums_2B[0][:, None]", "exp_BP / exp_BP.sum(1, keepdim=True)"),
    change("sent in backward", "ctx.save_for_backward(exp_BP / sums_2B[0][:, None],",
           "ctx.group = group\n        ctx.save_for_backward(exp_BP,", "onehot_BP = ",
           "sum_B = softmax_BP.sum(1)\n        dist.all_reduce(sum_B, group=ctx.group)\n"
           "        softmax_BP = softmax_BP / sum_B[:, None]\n        onehot_BP = "),
    change("own maximum", _MAXIMUM, "pass"),
    change("maximum not in target", "[:, 0] - max_B)", "[:, 0])"),
    change("first column", "(column_B >= 0)", "(column_B > 0)"),
    change("first column", "column_B < logits_BP", "column_B <= logits_BP", _COLUMN, _COLUMNS[-1]),
    change("log too early", "torch.stack([exp_BP.sum(1), ", "torch.stack([exp_BP.sum(1).log(), ",
           "sums_2B[0][:, None]", "exp_BP.sum(1, keepdim=True)", "sums_2B[0].log()", "sums_2B[0]"),
    change("sign", _LOSS, "return sums_2B[1] - sums_2B[0].log()"),
    change("mean", _LOSS, "return (sums_2B[0].log() - sums_2B[1]).mean().expand(len(targets_B)).clone()"),
    change("one-hot not scaled", f"{_DIFFERENCE} * dloss_B[:, None]",
           "softmax_BP * dloss_B[:, None] - onehot_BP"),
    change("sign of dlogits", _DIFFERENCE, "(onehot_BP - softmax_BP)"),
    change("divided by rows", "* dloss_B[:, None]", "* dloss_B[:, None] / len(dloss_B)"),
    change("wrong dlogits", "* dloss_B[:, None]", "* dloss_B[:, None].abs()"),
    change("foreign targets not 0", "- max_B) * own_B", "- max_B).masked_fill(~own_B, -1e4)"),
    change("too few gradients", "dloss_B[:, None], None, None", "dloss_B[:, None], None"),
    change("group ignored", "dist.all_reduce(sums_2B, group=group)", "dist.all_reduce(sums_2B)"),
    change("other ranks called", "dist.ReduceOp.MAX, group=group", "dist.ReduceOp.MAX"),
    change("only in groups", "targets_B - dist.get_rank(group)", "targets_B - dist.get_rank()"),
    change("other dtype", "return sums_2B[0].log()", "return sums_2B[0].double().log()"),
    change("input changed", _LOSS, f"logits_BP -= logits_BP.amax(1, keepdim=True)\n        {_LOSS}"),
)

EQUIVALENT = {
    "target_B = (logits_BP.gather(1, column_B1)[:, 0] - max_B) * own_B | 0 → (-1)":
        "One column was gathered: it is the first and the last.",
}
