"""Half repairs of case_2."""

from tests.mutants import change, half_repaired

OVER, BY = "dist.all_reduce(p.grad, group=data_group)", "p.grad /= dist.get_world_size(data_group)"
BROKEN = "dist.all_reduce(p.grad, group=tensor_group)"

CHANGES = (
    half_repaired("untouched"),
    half_repaired("mean of the team", BY, "p.grad /= dist.get_world_size(tensor_group)"),
    half_repaired("all with all", BROKEN, "dist.all_reduce(p.grad)"),
    half_repaired("mean of all", BROKEN, "dist.all_reduce(p.grad)", BY, "p.grad /= dist.get_world_size()"),
    change("divided by the team", BY, "p.grad /= dist.get_world_size(tensor_group)"),
    change("divided by the world", BY, "p.grad /= dist.get_world_size()"),
    half_repaired("copies left alone", BROKEN, "pass", BY, "pass"),
    change("too many bytes", BY, f"{BY}; {OVER}; {BY}"),
)
