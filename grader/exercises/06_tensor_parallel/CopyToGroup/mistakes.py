"""Wrong functions f."""

from grader.exercises.references import change

_CLONE, _ALL_REDUCE, _DX = "dx = dy.clone()", "dist.all_reduce(dx, group=ctx.group)", "return dx, None"
_SUMMED_FORWARD = ("return x", "y = x.clone()\n        dist.all_reduce(y, group=group)\n        return y")

CHANGES = (
    change("f and g swapped", *_SUMMED_FORWARD, _ALL_REDUCE, "pass"),
    change("all-reduced both ways", *_SUMMED_FORWARD),
    change("all-reduced both ways", "return x",
           "y = x.clone()\n        dist.all_reduce(y, group=group)\n        return y / dist.get_world_size(group)"),
    change("gradient not summed", _ALL_REDUCE, "pass"),
    change("mean", _DX, "return dx / dist.get_world_size(ctx.group), None"),
    change("summed twice", _ALL_REDUCE, f"{_ALL_REDUCE}\n        {_ALL_REDUCE}"),
    change("maximum", _ALL_REDUCE, "dist.all_reduce(dx, dist.ReduceOp.MAX, group=ctx.group)"),
    change("first rank's gradient", _ALL_REDUCE,
           "dx *= dist.get_rank(ctx.group) == 0\n        dist.all_reduce(dx, group=ctx.group)"),
    change("only in groups", _DX, "return dx * (dist.get_world_size(ctx.group) / dist.get_world_size()), None"),
    change("times n", _ALL_REDUCE, "dx *= dist.get_world_size(ctx.group)"),
    change("input changed", _CLONE, "dx = dy"),
    change("group not kept", "ctx.group = group", "pass"),
    change("too few gradients", _DX, "return dx"),
    change("group ignored", _ALL_REDUCE, "dist.all_reduce(dx)"),
    change("library call", _CLONE, "dx = dy.contiguous()", _ALL_REDUCE,
           "parts = [torch.empty_like(dx) for _ in range(dist.get_world_size(ctx.group))]\n"
           "        dist.all_gather(parts, dx, group=ctx.group)\n        dx = sum(parts)"),
    change("missing wait", _ALL_REDUCE, "ctx.work = dist.all_reduce(dx, group=ctx.group, async_op=True)"),
    change("communicates in forward", "return x", "dist.all_reduce(x.clone(), group=group)\n        return x"),
    change("too many bytes", _CLONE, "dx = dy.to(torch.float64, copy=True)", _DX, "return dx.to(dy.dtype), None"),
)
