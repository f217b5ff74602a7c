"""Wrong embeddings split by rows."""

from grader.exercises.references import change

_OWN, _ROWS = 'own_slice(embedding.num_embeddings, group, "rows")', 'own_part(embedding.weight, 0, group, "rows")'
_SHIFTED, _MASKED = "(ids - self.own.start) * mine", " * mine[..., None]"
_SUM = "return ReduceFromGroup.apply(part, self.group)"
_CLAMPED = "(ids - self.own.start).clamp(0, len(self.weight) - 1)"
_BACKWARD = ("return y", "ctx.group = group\n        return y", "return dy, None")

CHANGES = (
    *(change("ids not masked", _SHIFTED, row, _MASKED, "") for row in (_SHIFTED, "ids % len(self.weight)", _CLAMPED)),
    change("rows at the edge", "ids >= self.own.start", "ids > self.own.start"),
    change("rows at the edge", "ids < self.own.stop", "ids < self.own.stop - 1"),
    change("rows at the edge", "ids < self.own.stop", "ids <= self.own.stop", _SHIFTED, _CLAMPED),
    change("wrong y", _MASKED, " * (2 * mine[..., None] - 1)"),
    change("mean", _SUM, f"{_SUM} / dist.get_world_size(self.group)"),
    change("gradients of different rows summed", "self.weight)", "CopyToGroup.apply(self.weight, self.group))"),
    change("input changed", "        mine = ",
           "        given, ids = ids, ids.clone()\n        given.zero_()\n        mine = "),
    change("group ignored", _SUM, "return ReduceFromGroup.apply(part, None)"),
    change("part missing", "self.weight", "self.rows"),
    change("ids of one shape only", "        mine = ", "        B, T = ids.shape\n        mine = "),
    change("only in groups", "self.weight = ",
           "rows = self.own.stop - self.own.start\n"
           "        self.own = slice(dist.get_rank() * rows, (dist.get_rank() + 1) * rows)\n        self.weight = "),
    change("ids not shifted", _SHIFTED, "ids * mine"),
    change("foreign ids in gradient", _MASKED, "\n        part.data[~mine] = 0"),
    change("gradient n times", *_BACKWARD,
           "dx = dy.clone()\n        dist.all_reduce(dx, group=ctx.group)\n        return dx, None", of="ReduceFromGroup"),
    change("all-reduce backward", *_BACKWARD,
           "dx = dy / dist.get_world_size(ctx.group)\n        dist.all_reduce(dx, group=ctx.group)\n        return dx, None",
           of="ReduceFromGroup"),
    change("y not summed", _SUM, "return part"),
    change("library call", _SUM,
           "parts = [torch.empty_like(self.weight.data) for _ in range(dist.get_world_size(self.group))]\n"
           f"        dist.all_gather(parts, self.weight.data, group=self.group)\n        {_SUM}"),
    change("whole weights kept alive", _ROWS, "embedding.weight.detach()[self.own]"),
    change("rows in turn", _ROWS,
           "embedding.weight.detach()[dist.get_rank(group)::dist.get_world_size(group)].clone()"),
    change("sizes not checked", f"self.group, self.own = group, {_OWN}",
           "rows, rank = embedding.num_embeddings // dist.get_world_size(group), dist.get_rank(group)\n"
           "        self.group, self.own = group, slice(rank * rows, (rank + 1) * rows)",
           _ROWS, "embedding.weight.detach()[self.own].clone()"),
)
