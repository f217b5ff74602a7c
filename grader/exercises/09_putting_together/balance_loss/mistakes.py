"""Wrong losses for fairness."""

from grader.exercises.references import change

REDUCE = "dist.all_reduce(row, group=group)"
SHARES = "row[:n_experts] / (k * row[-1])"
RETURN = "return own + (whole - own.detach())"
COUNTED = "experts_Tk.flatten()"
N = "dist.get_world_size(group)"
OWN_LOSS = "n_experts * (counts_E / counts_E.sum() * sums_E / n_own).sum()"


def _gradient(of: str) -> str:
    """The right value with the gradient of another one."""
    return f"own = {of}\n    {RETURN}"


CHANGES = (
    change("mean of losses", RETURN, f"whole = {OWN_LOSS}.detach()\n    dist.all_reduce(whole, group=group)\n"
                                     f"    return own + (whole / {N} - own.detach())"),
    change("own tokens only", REDUCE, "pass"),
    change("mean of means", "probabilities_TE.sum(0)", "probabilities_TE.mean(0)", ".to(sums_E.dtype)",
           ".to(sums_E.dtype) / n_own", "sums_E.new_tensor([n_own])", "sums_E.new_tensor([1])"),
    change("own tokens only", RETURN, "return n_experts * (shares_E * probabilities_TE.mean(0)).sum()"),
    change("E forgotten", "n_experts * (shares_E", "(shares_E"),
    change("k not divided", SHARES, "row[:n_experts] / row[-1]"),
    change("first choices only", COUNTED, "experts_Tk[:, 0]", SHARES, "row[:n_experts] / row[-1]"),
    change("f from probabilities", SHARES, "row[n_experts:-1] / row[-1]"),
    change("wrong loss", SHARES, "row[:n_experts]", ".sum() / row[-1]", ".sum()"),
    change("E forgotten", "n_experts * (shares_E * sums).sum()", "(shares_E * sums).mean()"),
    change("gradient times n", RETURN, _gradient(f"own * {N}")),
    change("gradient divided by n", RETURN, _gradient(f"own / {N}")),
    change("wrong gradient", RETURN, _gradient("own * row[-1] / n_own")),
    change("wrong gradient", RETURN, _gradient("n_experts * (counts_E / counts_E.sum() * sums_E).sum() / row[-1]")),
    change("no gradient", RETURN, "return whole"),
    change("communicates in backward",
           RETURN, "from torch.distributed.nn.functional import all_reduce\n"
                   f"    own = all_reduce(own, group=group) / {N}\n    {RETURN}"),
    change("too many bytes", REDUCE, f"{REDUCE}; dist.all_reduce(probabilities_TE.new_zeros(9, n_experts), group=group)"),
    change("library call", REDUCE, "rows = [torch.empty_like(row) for _ in range(dist.get_world_size(group))]\n"
                                   "    dist.all_gather(rows, row, group=group)\n    row = torch.stack(rows).sum(0)"),
    change("group ignored", "group=group", "group=None"),
    change("missing wait", REDUCE, "work = dist.all_reduce(row, group=group, async_op=True)"),
    change("other dtype", RETURN, "return (own + (whole - own.detach())).float()"),
    change("tokens reduced", "sums_E = probabilities_TE.sum(0)",
           "dist.all_reduce(probabilities_TE, group=group); sums_E = probabilities_TE.sum(0)"),
    change("wrong gradient", RETURN, _gradient("own - probabilities_TE.mean()")),
    change("wrong loss", RETURN, "whole = whole + 1\n    " + RETURN),
    change("losses differ", RETURN, "whole = whole + dist.get_rank(group)\n    " + RETURN),
)
