"""Wrong gathers of a sequence."""

from grader.exercises.references import change

GATHER = "return GatherSequence.gathered(x_PBD, group)"
SCATTER = "GatherSequence.scattered(dy_SBD, ctx.group)"
OWN_PIECE = "chunk(dist.get_world_size({0}))[dist.get_rank({0})]"


def _rejoined(x: str, group: str, then: str) -> str:
    """x's pieces in another arrangement."""
    return f"torch.cat({x}.chunk(dist.get_world_size({group}){then})"


CHANGES = (
    change("gradient not summed", SCATTER, "dy_SBD." + OWN_PIECE.format("ctx.group")),
    change("library call", "dist.reduce_scatter_single(y_PBD, x_SBD.contiguous(), group=group)",
           "dist.all_reduce(x_SBD := x_SBD.clone(), group=group); y_PBD = x_SBD." + OWN_PIECE.format("group")),
    change("mean for sum", SCATTER, SCATTER + " / dist.get_world_size(ctx.group)"),
    *(change("wrong result", GATHER, "return " + _rejoined("GatherSequence.gathered(x_PBD, group)", "group", then))
      for then in (")[::-1]", "), 1", "), 2")),
    change("written over", GATHER, "y_SBD = GatherSequence.gathered(x_PBD, group)\n"
           "        rows = GatherSequence.rows = getattr(GatherSequence, 'rows', {})\n"
           "        return rows.setdefault((y_SBD.shape, y_SBD.dtype), y_SBD).copy_(y_SBD).detach()"),
    change("too few gradients", SCATTER + ", None", SCATTER),
    change("group ignored", SCATTER, "GatherSequence.scattered(dy_SBD, None)"),
    change("missing wait", "x_PBD.contiguous(), group=group)", "x_PBD.contiguous(), group=group, async_op=True)"),
    change("not contiguous", "x_SBD.contiguous(), group", "x_SBD.view(-1).view_as(x_SBD), group"),
    change("gradient in another place", SCATTER + ", None", "None, " + SCATTER),
    change("wrong gradient", SCATTER, "GatherSequence.scattered(" + _rejoined("dy_SBD", "ctx.group", ")[::-1]")
           + ", ctx.group)"),
    change("only in groups", SCATTER, SCATTER + " * dist.get_world_size(ctx.group) / dist.get_world_size()"),
    change("fewer digits", SCATTER, "GatherSequence.scattered(dy_SBD.float(), ctx.group).to(dy_SBD.dtype)"),
    change("another dtype", GATHER, GATHER + ".float()"),
    change("too many bytes", GATHER, "GatherSequence.gathered(x_PBD, group)\n        " + GATHER),
)

EQUIVALENT = {
    "dist.all_gather_single(y_SBD, x_PBD.contiguous(), group=group) | x_PBD.contiguous() → x_PBD":
        "torch sends what is not contiguous in order, too.",
    "dist.reduce_scatter_single(y_PBD, x_SBD.contiguous(), group=group) | x_SBD.contiguous() → x_SBD":
        "torch sends what is not contiguous in order, too.",
}
