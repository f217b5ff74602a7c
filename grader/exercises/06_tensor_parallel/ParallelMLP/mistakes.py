"""Wrong MLPs in pieces."""

from grader.exercises.references import change

_START, _F, _DOWN = "self.group = group", "CopyToGroup.apply(x, self.group)", "return self.down(hidden)"
_GELU, _GATED = "F.gelu(self.up(x))", "F.silu(self.gate(x)) * self.up(x)"
_BOTH = f"{_GELU} if self.gate is None else {_GATED}"

CHANGES = (
    change("f missing", _F, "x"),
    change("backward calls", "copy=False", "copy=True", _F, "x"),
    change("f on one of two", "ColumnParallelLinear(up, group, copy=False)", "ColumnParallelLinear(up, group)", _F, "x"),
    change("f on one of two", "ColumnParallelLinear(gate, group, copy=False)", "ColumnParallelLinear(gate, group)", _F, "x"),
    *(change("dx times n", f"ColumnParallelLinear({layer}, group, copy=False)", f"ColumnParallelLinear({layer}, group)")
      for layer in ("up", "gate")),
    change("dx times n", _F, f"CopyToGroup.apply({_F}, self.group)"),
    change("not summed", _DOWN, "return F.linear(hidden, self.down.weight, self.down.bias)"),
    change("summed both ways", "F.linear(x, self.weight)", "CopyToGroup.apply(F.linear(x, self.weight), self.group)",
           of="RowParallelLinear"),
    change("bias n times", _DOWN,
           "return ReduceFromGroup.apply(F.linear(hidden, self.down.weight, self.down.bias), self.group)"),
    change("no gate", _BOTH, _GELU),
    change("gate and up exchanged", _GATED, "F.silu(self.up(x)) * self.gate(x)"),
    change("gate and up exchanged", _GATED, "F.silu(self.gate(x) * self.up(x))"),
    *(change("other activation", "F.silu", other) for other in ("F.sigmoid", "F.gelu")),
    change("GELU by tanh", _GELU, 'F.gelu(self.up(x), approximate="tanh")'),
    change("no activation", _BOTH, "self.up(x) if self.gate is None else self.gate(x) * self.up(x)"),
    change("gate added", _GATED, "F.silu(self.gate(x)) + self.up(x)"),
    change("GELU on up too", _GATED, "F.silu(self.gate(x)) * F.gelu(self.up(x))"),
    *(change("not GELU", "F.gelu", other) for other in ("F.relu", "F.silu", "F.tanh", "F.sigmoid")),
    change("part missing", "self.down = ", "self.below = ", "return self.down(", "return self.below("),
    change("only in groups", "RowParallelLinear(down, group)", "RowParallelLinear(down)"),
    change("forward calls", _DOWN, f"dist.all_reduce(x.detach().clone(), group=self.group)\n        {_DOWN}"),
    change("library call", _DOWN,
           "parts = [torch.empty_like(hidden) for _ in range(dist.get_world_size(self.group))]\n"
           f"        dist.all_gather(parts, hidden.detach(), group=self.group)\n        {_DOWN}"),
    change("whole weight kept", _START, "self.group, self.layers = group, [up, down]"),
    change("parameters not divided", _START, "self.group, self.whole = group, down"),
    change("no error", _START,
           "self.group, n = group, dist.get_world_size(group)\n"
           "        if up.out_features % n:\n"
           "            up = nn.Linear(up.in_features, up.out_features // n * n, dtype=up.weight.dtype)\n"
           "            down = nn.Linear(up.out_features, down.out_features, dtype=up.weight.dtype)"),
    change("shapes", "self.down = RowParallelLinear(down, group)",
           "self.down = RowParallelLinear(down, group)\n"
           "        self.down.weight = nn.Parameter(down.weight.detach().T[own_slice(down.in_features, group)].clone())"),
    change("group ignored", _F, "CopyToGroup.apply(x, None)"),
)
