"""Half repairs of case_8."""

from tests.mutants import change, half_repaired

DIVIDE, REDUCE = "flat /= dist.get_world_size(group)", "dist.all_reduce(flat, group=group)"
BACKWARD, STEPS = "loss.backward()", "hunted.SGD(model.parameters(), lr)"

CHANGES = (
    half_repaired("untouched"),
    change("divided twice", DIVIDE, "flat /= dist.get_world_size(group) ** 2"),
    half_repaired("learning rate divided", STEPS, "hunted.SGD(model.parameters(), lr / dist.get_world_size(group))"),
    half_repaired("loss divided", BACKWARD, f"loss = loss / dist.get_world_size(group)\n        {BACKWARD}"),
    change("own gradients", "p.grad.copy_(gradient.view_as(p))", "pass"),
    change("own gradients divided", "p.grad.copy_(gradient.view_as(p))", "p.grad /= dist.get_world_size(group)"),
    change("group ignored", "(group)", "()", ", group=group", ""),
    change("too many bytes", DIVIDE, f"{DIVIDE}; {REDUCE}; {DIVIDE}"),
    change("too many messages", REDUCE, "for part in flat.chunk(4): dist.all_reduce(part, group=group)"),
    change("fewer digits", DIVIDE, "flat = flat.float() / dist.get_world_size(group)"),
    change("other number of notes", "return notes", "return notes[-1]"),
    change("gradients noted wrong", "notes.append(", "optimizer.zero_grad(); notes.append("),
)
