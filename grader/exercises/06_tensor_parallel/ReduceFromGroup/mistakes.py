"""Wrong functions g."""

from grader.exercises.references import change

_CLONE, _ALL_REDUCE, _BACK = "y = x.clone()", "dist.all_reduce(y, group=group)", "return dy, None"
_KEEP_GROUP = ("return y", "ctx.group = group\n        return y")
_SUMMED_BACK = (_BACK, "dx = dy.clone()\n        dist.all_reduce(dx, group=ctx.group)\n        return dx, None")

CHANGES = (
    change("f and g swapped", *_KEEP_GROUP, *_SUMMED_BACK, _ALL_REDUCE, "pass"),
    change("all-reduced both ways", *_KEEP_GROUP, *_SUMMED_BACK),
    change("all-reduced both ways", _BACK, "dx = dy.clone()\n        dist.all_reduce(dx)\n        return dx, None"),
    change("not summed", _ALL_REDUCE, "pass"),
    change("written over", _CLONE, "places = ReduceFromGroup.places = getattr(ReduceFromGroup, 'places', {})\n"
           "        y = places.setdefault((x.shape, x.dtype), x.detach().clone()).copy_(x)",
           "return y", "return y.detach()"),
    change("summed twice", _ALL_REDUCE, f"{_ALL_REDUCE}\n        {_ALL_REDUCE}"),
    change("mean", "return y", "return y / dist.get_world_size(group)"),
    change("first rank's term", _CLONE, "y = x * (dist.get_rank(group) == 0)"),
    change("maximum", _ALL_REDUCE, "dist.all_reduce(y, dist.ReduceOp.MAX, group=group)"),
    change("other dtype", "return y", "return y.double()"),
    change("gradient on one rank", *_KEEP_GROUP, _BACK, "return dy * (dist.get_rank(ctx.group) == 0), None"),
    change("gradient times n", *_KEEP_GROUP, _BACK, "return dy * dist.get_world_size(ctx.group), None"),
    change("gradient of ones", _BACK, "return dy.new_ones(dy.shape), None"),
    change("gradient divided", *_KEEP_GROUP, _BACK, "return dy / dist.get_world_size(ctx.group), None"),
    change("input changed", _CLONE, "y = x", "return y", "return y.clone()"),
    change("group not kept", _BACK, _SUMMED_BACK[1]),
    change("too few gradients", _BACK, "return dy"),
    change("group ignored", _ALL_REDUCE, "dist.all_reduce(y)"),
    change("library call", _CLONE, "y = x.contiguous()", _ALL_REDUCE,
           "parts = [torch.empty_like(y) for _ in range(dist.get_world_size(group))]\n"
           "        dist.all_gather(parts, y, group=group)\n        y = sum(parts)"),
    change("missing wait", _ALL_REDUCE, "ctx.work = dist.all_reduce(y, group=group, async_op=True)"),
    change("communicates in backward", *_KEEP_GROUP, _BACK,
           "dist.all_reduce(dy.clone(), group=ctx.group)\n        return dy, None"),
    change("too many bytes", _CLONE, "y = x.to(torch.float64, copy=True)", "return y", "return y.to(x.dtype)"),
)
