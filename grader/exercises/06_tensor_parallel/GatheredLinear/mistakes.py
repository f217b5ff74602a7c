"""Wrong linear layers with gathered outputs."""

from grader.exercises.references import change

_JOIN, _ALL_REDUCE = "return torch.cat(parts, dim=-1)", "dist.all_reduce(dx_BI, group=ctx.group)"
_DX, _DW = "dx_BI = dy_BP @ w_PI", "dy_BP.T @ x_BI"

CHANGES = (
    change("gathered by rows", _JOIN, "return torch.cat(parts).view(len(x_BI), -1)"),
    change("interleaved", _JOIN, "return torch.stack(parts, -1).flatten(1)"),
    change("wrong order", _JOIN, "rank = dist.get_rank(group)\n        return torch.cat(parts[rank:] + parts[:rank], -1)"),
    change("own part", _JOIN, "return y_BP"),
    change("dx not summed", _ALL_REDUCE, "pass"),
    change("dx averaged", "return dx_BI", "return dx_BI / dist.get_world_size(ctx.group)"),
    change("dx times n", _ALL_REDUCE, f"{_ALL_REDUCE}\n        {_ALL_REDUCE}"),
    change("dy summed", "dy_BP = ",
           "dy_BO = dy_BO.clone()\n        dist.all_reduce(dy_BO, group=ctx.group)\n        dy_BP = "),
    change("dy summed", "dy_BP = ",
           "dy_BO = dy_BO.clone()\n        dist.all_reduce(dy_BO, group=ctx.group)\n        dy_BP = ", _ALL_REDUCE, "pass"),
    change("dW summed", f"return dx_BI, {_DW}",
           f"dw_PI = {_DW}\n        dist.all_reduce(dw_PI, group=ctx.group)\n        return dx_BI, dw_PI"),
    change("dW averaged", _DW, f"{_DW} / dist.get_world_size(ctx.group)"),
    change("first columns", "dy_BO[:, own_slice(dy_BO.shape[-1], ctx.group)]", "dy_BO[:, :w_PI.shape[0]]"),
    change("below one another", _JOIN, "return torch.cat(parts)"),
    change("last rank's part", "[torch.empty_like(y_BP) for _ in range(dist.get_world_size(group))]",
           "[torch.empty_like(y_BP)] * dist.get_world_size(group)"),
    change("other dtype", _JOIN, f"{_JOIN}.float()"),
    change("only in groups", "own_slice(dy_BO.shape[-1], ctx.group)",
           "dist.get_rank() * w_PI.shape[0]:(dist.get_rank() + 1) * w_PI.shape[0]"),
    change("kept on the class", "ctx.save_for_backward(x_BI, w_PI)", "GatheredLinear.kept = x_BI, w_PI",
           "ctx.saved_tensors", "GatheredLinear.kept"),
    change("shapes", _DW, "dy_BO.T @ x_BI"),
    change("too few gradients", f"{_DW}, None", _DW),
    change("weights gathered", "y_BP = x_BI @ w_PI.T", "y_BP = w_PI",
           _JOIN, "ctx.w_OI = torch.cat(parts)\n        return x_BI @ ctx.w_OI.T",
           _DX, "dx_BI = dy_BO @ ctx.w_OI", _ALL_REDUCE, "pass"),
    change("library call", "dist.all_gather(parts, y_BP, group=group)",
           "parts[dist.get_rank(group)] = y_BP\n        for rank, part in enumerate(parts):\n"
           "            dist.broadcast(part, group=group, group_src=rank)"),
    change("backward calls", _DX, f"dist.all_reduce(dy_BO[:1, :1].clone(), group=ctx.group)\n        {_DX}"),
    change("group ignored", _ALL_REDUCE, "dist.all_reduce(dx_BI)"),
    change("missing wait", _ALL_REDUCE, "ctx.work = dist.all_reduce(dx_BI, group=ctx.group, async_op=True)"),
)

EQUIVALENT = {
    "return torch.cat(parts, dim=-1) | -1 → 1": "The last of two dims.",
    "dy_BP = dy_BO[:, own_slice(dy_BO.shape[-1], ctx.group)] | -1 → 1": "The last of two dims.",
}
