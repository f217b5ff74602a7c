"""Wrong row-parallel layers."""

from grader.exercises.references import change

_START, _PRODUCT, _BIASED = "self.group = group", "F.linear(x, self.weight)", "y if self.bias is None else y + self.bias"
_SUM, _WEIGHT = f"ReduceFromGroup.apply({_PRODUCT}, self.group)", 'own_part(linear.weight, 1, group, "input features")'


def _with_columns(hint, own):
    """Columns `own` of the weight, where `part` are the right ones."""
    return change(hint, _START, f"{_START}\n        part = own_slice(linear.in_features, group)",
                  _WEIGHT, f"linear.weight.detach()[:, {own}].clone()")


def _bias_inside(hint, bias):
    """Every rank adds `bias` before the sum."""
    return change(hint, _PRODUCT, f"F.linear(x, self.weight, {bias})", _BIASED, "y")


CHANGES = (
    change("not summed", _SUM, _PRODUCT),
    change("f for g", "ReduceFromGroup", "CopyToGroup"),
    change("summed both ways", _PRODUCT, f"CopyToGroup.apply({_PRODUCT}, self.group)"),
    _bias_inside("bias n times", "self.bias"),
    *(_bias_inside("bias's gradient on one rank", bias.format(f"dist.get_rank(self.group) == {rank}"))
      for rank in ("0", "dist.get_world_size(self.group) - 1")
      for bias in ("self.bias if {} else None", "None if self.bias is None else self.bias * ({})")),
    _bias_inside("bias divided", "None if self.bias is None else self.bias / dist.get_world_size(self.group)"),
    change("an n-th of the bias", "linear.bias.detach().clone()", "linear.bias.detach() / dist.get_world_size(group)",
           _PRODUCT, "F.linear(x, self.weight, self.bias)", _BIASED, "y"),
    change("bias's gradient summed", "y + self.bias", "y + CopyToGroup.apply(self.bias, self.group)"),
    change("bias missing", _BIASED, "y"),
    change("mean", "return y", "return y / dist.get_world_size(group)", of="ReduceFromGroup"),
    change("mean", _SUM, f"{_SUM} / dist.get_world_size(self.group)"),
    _with_columns("every n-th column", "dist.get_rank(group)::dist.get_world_size(group)"),
    _with_columns("first columns", ":part.stop - part.start"),
    change("f in front", _PRODUCT, "F.linear(CopyToGroup.apply(x, self.group), self.weight)"),
    change("outputs cut", "linear.bias.detach().clone()", "own_part(linear.bias, 0, group)"),
    change("bias taken for granted", "None if linear.bias is None else ", ""),
    change("part missing", "self.bias = None", "self.offset = None", _BIASED,
           "y if self.offset is None else y + self.offset"),
    change("only in groups", _WEIGHT, 'own_part(linear.weight, 1, None, "input features")'),
    change("shapes", "F.linear(x,", "F.linear(x.chunk(dist.get_world_size(self.group), -1)[0],"),
    change("no error", _WEIGHT,
           "linear.weight.detach().tensor_split(dist.get_world_size(group), 1)[dist.get_rank(group)].clone()"),
    change("whole weight kept", _WEIGHT, "linear.weight.detach()[:, own_slice(linear.in_features, group)]"),
    change("not a copy", _WEIGHT, "linear.weight.detach()[:, own_slice(linear.in_features, group)].contiguous()"),
    change("parameters not divided", _START, f"{_START}\n        self.linear = linear"),
    change("library call", _SUM,
           f"{_PRODUCT}\n        parts = [torch.empty_like(y) for _ in range(dist.get_world_size(self.group))]\n"
           "        dist.all_gather(parts, y.detach(), group=self.group)\n        y = y + (sum(parts) - y.detach())"),
    change("forward calls", _SUM, f"{_SUM} + ReduceFromGroup.apply(torch.zeros_like(x[..., :1]), self.group)"),
    change("backward calls", "y = ",
           "x = CopyToGroup.apply(x, self.group) / 2 + x - CopyToGroup.apply(x, self.group) / 2\n        y = "),
    change("group ignored", _SUM, f"ReduceFromGroup.apply({_PRODUCT}, None)"),
)

EQUIVALENT = {
    "self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone()) | "
    "linear.bias.detach() → linear.bias": "nn.Parameter() takes the numbers, and no graph.",
    "self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone()) | "
    "linear.bias.detach().clone() → linear.bias.detach()":
        "The layer that was given is not looked at again; the weight, which is large, must be a copy.",
}
