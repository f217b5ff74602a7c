"""Half repairs of case_6."""

from grader.exercises.references import change, half_repaired

AGAIN, DIVIDE = "dist.all_reduce(p.grad, group=group)\n            ", "p.grad /= dist.get_world_size(group)"
HOOK = "p.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad, group=group))"

CHANGES = (
    half_repaired("untouched"),
    half_repaired("sum for mean", AGAIN, "", DIVIDE, "pass"),
    change("divided twice", DIVIDE, "p.grad /= dist.get_world_size(group) ** 2"),
    change("nobody reduces", HOOK, "pass"),
    change("nobody reduces", HOOK, "pass", DIVIDE, "pass"),
    change("learning rate divided", DIVIDE, "pass", "(model.parameters(), lr)", "(model.parameters(), lr / n)",
           "model, notes = hunted.small_mlp(), []", "model, notes, n = hunted.small_mlp(), [], dist.get_world_size(group)"),
    half_repaired("too many bytes", DIVIDE, "p.grad /= dist.get_world_size(group) ** 2"),
)
