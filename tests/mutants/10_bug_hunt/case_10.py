"""Half repairs of case_10."""

from tests.mutants import change, half_repaired

NORM, REDUCE = "for p in model.norm.parameters():", "dist.all_reduce(p.grad, group=group)"

CHANGES = (
    half_repaired("untouched"),
    change("mean for sum", REDUCE, f"{REDUCE}; p.grad /= n"),
    change("all reduced", NORM, "for p in model.parameters():"),
    change("all averaged", NORM, "for p in model.parameters():", REDUCE, f"{REDUCE}; p.grad /= n"),
    change("weight only", NORM, "for p in [model.norm.weight]:"),
    change("bias only", NORM, "for p in [model.norm.bias]:"),
    change("too many bytes", REDUCE, f"{REDUCE}; p.grad /= n; {REDUCE}"),
    half_repaired("too early", "        loss.backward()", "        dist.all_reduce(model.norm.weight.grad, group=group)\n"
                               "        loss.backward()"),
    change("group ignored", "group=group)", "group=None)", ", group)", ", None)", "(group)", "()"),
)
