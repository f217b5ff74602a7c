"""Wrong linear layers on pieces of a sequence."""

from grader.exercises.references import change

GATHER = "gathering = dist.all_gather_single(x_SBI, x_PBI.contiguous(), group=group, async_op=True)"
REDUCE = "reducing = dist.reduce_scatter_single(dx_PBI, dx_SBI, group=group, async_op=True)"
OWN_DX = "dx_SBI.chunk(n)[dist.get_rank(group)].clone()"

CHANGES = (
    change("whole kept", "return F.linear(GatherSequence.gathered(x_PBI, group),",
           "ctx.whole = GatherSequence.gathered(x_PBI, group)\n        return F.linear(ctx.whole,",
           GATHER, "x_SBI = ctx.whole", "gathering.wait()", "pass"),
    change("library call", REDUCE, f"dist.all_reduce(dx_SBI, group=group); dx_PBI = {OWN_DX}", "reducing.wait()", "pass"),
    change("gradient not summed", "return dx_PBI", f"return {OWN_DX}"),
    change("mean for sum", "return dx_PBI", "return dx_PBI / n"),
    change("dW of the piece", "dy_RO.T @ x_SBI", "dy_SBO.chunk(n)[dist.get_rank(group)].flatten(0, 1).T @ x_PBI"),
    change("dW divided", "dweight_OI, dbias_O, None", "dweight_OI / n, dbias_O, None"),
    change("bias forgotten", "weight_OI, bias_O)", "weight_OI)"),
    change("bias on every rank", "weight_OI, bias_O)", "weight_OI, dist.get_world_size(group) * bias_O)"),
    change("wrong db", "dy_RO.sum(0)", "dy_RO.mean(0)"),
    change("wrong db", "dy_RO.sum(0)", "dy_SBO.chunk(n)[dist.get_rank(group)].sum((0, 1))"),
    change("not contiguous", "dy_SBO.flatten(0, 1)", "dy_SBO.view(-1, dy_SBO.shape[-1])"),
    change("gradient in another place", "dx_PBI, dweight_OI, dbias_O, None", "dx_PBI, dbias_O, dweight_OI, None"),
    change("fewer digits", "return dx_PBI", "return dx_PBI.float().to(dx_PBI.dtype)"),
    change("only in groups", "dy_RO.sum(0)", "dy_RO.sum(0) * dist.get_world_size() / n"),
    change("wrong dW", "dy_RO.T @", "2 * dy_RO.T @"),
    change("wrong y", "gathered(x_PBI, group), weight", "gathered(x_PBI, group).flip(0), weight"),
    change("too few gradients", "dbias_O, None", "dbias_O"),
    change("group ignored", "ctx.group = group", "ctx.group = group = None"),
    change("too many bytes", "ctx.group = group", "ctx.group = group; GatherSequence.gathered(x_PBI, group)"),
)

EQUIVALENT = {
    "gathering = dist.all_gather_single(x_SBI, x_PBI.contiguous(), group=group, async_op=True) | x_PBI.contiguous() → x_PBI":
        "torch sends what is not contiguous in order, too.",
}
