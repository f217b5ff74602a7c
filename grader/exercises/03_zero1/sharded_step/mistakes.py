"""Wrong steps of ZeRO-1."""

from grader.exercises.references import change

REDUCE = "dist.reduce_scatter_single(shard_C.grad, gradient_Z, group=group)"
DIVIDE = "shard_C.grad /= dist.get_world_size(group)"
OWN_PART = "shard_C.grad = gradient_Z.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()"
GATHER = "dist.all_gather_single(flat_Z, shard_C.detach(), group=group)"
GATHER_GRADIENTS = "dist.all_gather_single(gradient_Z, shard_C.grad, group=group)"

CHANGES = (
    change("divided by the world", "dist.get_world_size(group)", "dist.get_world_size()"),
    change("sum for mean", DIVIDE, "pass"),
    change("sum for mean", "shard_C.grad = torch", "first = shard_C.grad is None; shard_C.grad = torch",
           DIVIDE, f"if not first:\n        {DIVIDE}"),
    change("sum for mean", DIVIDE, "optimizer.param_groups[0]['lr'] /= dist.get_world_size(group)", "optimizer.step()",
           "optimizer.step()\n    optimizer.param_groups[0]['lr'] *= dist.get_world_size(group)"),
    change("own gradient", REDUCE, OWN_PART, DIVIDE, "pass"),
    change("divided twice", DIVIDE, f"{DIVIDE}; {DIVIDE}"),
    change("gradients pile up", "shard_C.grad = torch.empty_like(shard_C)",
           "before = 0 if shard_C.grad is None else shard_C.grad.clone(); shard_C.grad = torch.empty_like(shard_C)",
           DIVIDE, f"{DIVIDE}; shard_C.grad += before"),
    change("optimizer passed by", "optimizer.step()", "shard_C.data -= optimizer.param_groups[0]['lr'] * shard_C.grad"),
    change("not updated", "optimizer.step()", "pass"),
    change("zeros skipped", "optimizer.step()", "optimizer.step() if shard_C.grad.any() else None"),
    change("parameters not gathered", GATHER, GATHER_GRADIENTS),
    change("buffer of another dtype", "single(shard_C.grad", "single(torch.empty(len(shard_C))"),
    change("no output", "shard_C.grad = torch.empty_like(shard_C)", "pass", "shard_C.grad, gradient_Z",
           "gradient_Z, shard_C.grad"),
    change("too many bytes", GATHER, f"{GATHER}; {GATHER_GRADIENTS}"),
    change("library call", REDUCE, f"dist.all_reduce(gradient_Z, group=group); {OWN_PART}"),
    change("missing wait", GATHER, GATHER.replace("group=group", "group=group, async_op=True")),
)

EQUIVALENT = {
    "dist.all_gather_single(flat_Z, shard_C.detach(), group=group) | shard_C.detach() → shard_C":
        "A collective reads the numbers alone, and no graph comes of it.",
}
