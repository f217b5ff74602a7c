"""Wrong ways to average gradients."""

from grader.exercises.references import change

EACH_DTYPE = "for dtype in {g.dtype: None for g in gradients}:"
CHOSEN = "[g for g in gradients if g.dtype == dtype]"
REDUCE = "dist.all_reduce(flat, group=group)"
DIVIDE = "        flat /= dist.get_world_size(group)\n"
CHANGES = (
    change("divided by the world", "get_world_size(group)", "get_world_size()"),
    change("a call each", EACH_DTYPE, "for g in gradients:", CHOSEN, "[g]"),
    change("divided by their count", "flat /= dist.get_world_size(group)", "flat /= len(chosen)"),
    change("sum for mean", DIVIDE, ""),
    change("divided twice", REDUCE, "dist.all_reduce(flat, dist.ReduceOp.AVG, group=group)"),
    change("own gradients", "gradient.copy_(piece.view_as(gradient))", "pass"),
    change("pieces misplaced", "[g.flatten() for g in chosen]", "[g.flatten() for g in chosen[::-1]]"),
    change("no gradient", " if p.grad is not None", ""),
    change("zeros for none", "    gradients =", "    for p in model.parameters():\n"
           "        p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n    gradients ="),
    change("promoted", EACH_DTYPE, "for _ in range(1):", CHOSEN, "gradients"),
    change("reduced twice", DIVIDE, f"{DIVIDE}        dist.all_reduce(flat, dist.ReduceOp.AVG, group=group)\n"),
    change("few digits", "get_world_size(group)", "get_world_size(group) + 1e-5"),
    change("dtype left", EACH_DTYPE, "for dtype in [g.dtype for g in gradients][:1]:"),
    change("gradient replaced", "gradients = [p.grad for p", "gradients = [p for p", "{g.dtype:", "{g.grad.dtype:",
           "if g.dtype ==", "if g.grad.dtype ==", "g.flatten()", "g.grad.flatten()",
           "gradient.copy_(piece.view_as(gradient))", "gradient.grad = piece.view_as(gradient)"),
    change("group ignored", REDUCE, "dist.all_reduce(flat)"),
    change("missing wait", REDUCE, "dist.all_reduce(flat, group=group, async_op=True)"),
)
