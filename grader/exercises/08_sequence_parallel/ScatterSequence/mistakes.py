"""Wrong ways from partial sums to a piece of the sum."""

from grader.exercises.references import change

SCATTER = "return GatherSequence.scattered(x_SBD, group)"
GATHER = "GatherSequence.gathered(dy_PBD, ctx.group)"
OWN_PIECE = "x_SBD.chunk(n)[dist.get_rank(group)].clone()"

CHANGES = (
    change("not reduced", SCATTER, f"return {OWN_PIECE}"),
    change("written over", SCATTER, "y_PBD = GatherSequence.scattered(x_SBD, group)\n"
           "        rows = ScatterSequence.rows = getattr(ScatterSequence, 'rows', {})\n"
           "        return rows.setdefault((y_PBD.shape, y_PBD.dtype), y_PBD).copy_(y_PBD).detach()"),
    change("library call", SCATTER, f"dist.all_reduce(x_SBD := x_SBD.clone(), group=group); return {OWN_PIECE}"),
    change("mean for sum", SCATTER, SCATTER + " / n"),
    change("gradient not gathered", GATHER, "torch.cat([dy_PBD * (i == dist.get_rank(ctx.group)) "
                                            "for i in range(dist.get_world_size(ctx.group))])"),
    change("gradient divided", GATHER, GATHER + " / dist.get_world_size(ctx.group)"),
    change("wrong result", SCATTER, "return GatherSequence.scattered(torch.cat(x_SBD.chunk(n)[::-1]), group)"),
    change("not refused",
           "if length % n or not length:", "ctx.left = length % n; x_SBD = x_SBD[:length - ctx.left]\n        if False:",
           GATHER, f"F.pad({GATHER}, (0, 0, 0, 0, 0, ctx.left))"),
    change("group ignored", GATHER, "GatherSequence.gathered(dy_PBD, None)"),
    change("wrong gradient", GATHER, GATHER + ".flip(0)"),
    change("only in groups", "dist.get_world_size(group)", "dist.get_world_size()"),
    change("not contiguous", "scattered(x_SBD,", "scattered(x_SBD.view(-1).view_as(x_SBD),"),
    change("fewer digits", "GatherSequence.scattered(x_SBD, group)",
           "GatherSequence.scattered(x_SBD.float(), group).to(x_SBD.dtype)"),
    change("too few gradients", GATHER + ", None", GATHER),
)
