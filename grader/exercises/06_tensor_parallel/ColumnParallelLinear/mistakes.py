"""Wrong column-parallel layers."""

from grader.exercises.references import change

_START, _F = "self.group, self.copy = group, copy", "CopyToGroup.apply(x, self.group)"
_Y = "F.linear(x, self.weight, self.bias)"
_WEIGHT, _BIAS = (f'own_part(linear.{name}, 0, group, "output features")' for name in ("weight", "bias"))


def _with_rows(hint, own):
    """Rows `own` of weight and bias, where `part` are the right ones."""
    return change(hint, _START, f"{_START}\n        part = own_slice(linear.out_features, group)\n        own = {own}",
                  _WEIGHT, "linear.weight.detach()[own].clone()", _BIAS, "linear.bias.detach()[own].clone()")


def _uneven(name):
    return f"linear.{name}.detach().tensor_split(dist.get_world_size(group))[dist.get_rank(group)].clone()"


CHANGES = (
    change("f missing", _F, "x"),
    change("copy ignored", "if self.copy:", "if True:"),
    change("copy inverted", "if self.copy:", "if not self.copy:"),
    change("f on the weight", f"x = {_F}",
           "return F.linear(x, CopyToGroup.apply(self.weight, self.group), self.bias)"),
    change("bias not cut", _BIAS, "linear.bias.detach().clone()"),
    change("bias taken for granted", "None if linear.bias is None else ", ""),
    change("more parameters", "None if linear.bias is None else nn.Parameter(", "nn.Parameter(", _BIAS,
           "own_part(linear.weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias, 0, group)"),
    change("part missing", "self.bias = None", "self.offset = None", "self.bias)", "self.offset)"),
    change("only in groups", _WEIGHT, 'own_part(linear.weight, 0, None, "output features")'),
    change("f behind", f"x = {_F}", f"return CopyToGroup.apply({_Y}, self.group)"),
    change("g for f", "CopyToGroup", "ReduceFromGroup"),
    change("times n", _F, "CopyToGroup.apply(CopyToGroup.apply(x, self.group), self.group)"),
    change("g for f", _F, f"ReduceFromGroup.apply({_F}, self.group)"),
    _with_rows("every n-th row", "slice(dist.get_rank(group), None, dist.get_world_size(group))"),
    change("every n-th row", _WEIGHT, "linear.weight.detach()[dist.get_rank(group)::dist.get_world_size(group)].clone()"),
    _with_rows("first rows", "slice(0, part.stop - part.start)"),
    _with_rows("whole y", "slice(None)"),
    change("not contiguous", _Y, f"{_Y.replace('x,', 'x.view(-1, x.shape[-1]),')}.view(*x.shape[:-1], -1)"),
    change("bias missing", _Y, "F.linear(x, self.weight)"),
    change("shapes", _WEIGHT, "linear.weight.detach().chunk(dist.get_world_size(group), 1)[dist.get_rank(group)].clone()"),
    change("no error", _WEIGHT, _uneven("weight"), _BIAS, _uneven("bias")),
    change("whole weight kept", _WEIGHT, "linear.weight.detach()[own_slice(linear.out_features, group)]"),
    change("whole bias kept", _BIAS, "linear.bias.detach()[own_slice(linear.out_features, group)]"),
    change("parameters not divided", _START, f"{_START}\n        self.linear = linear"),
    change("no gradient", "nn.Parameter(", "("),
    change("other dtype", _WEIGHT, f"{_WEIGHT}.float()"),
    change("library call", f"return {_Y}",
           f"y = {_Y}\n        parts = [torch.empty_like(y) for _ in range(dist.get_world_size(self.group))]\n"
           "        dist.all_gather(parts, y.detach(), group=self.group)\n        return y"),
    change("backward calls", _F, "CopyToGroup.apply(x / 2, self.group) + CopyToGroup.apply(x / 2, self.group)"),
    change("forward calls", "if self.copy:", "dist.all_reduce(x.detach().clone(), group=self.group)\n        if self.copy:"),
    change("group ignored", _F, "CopyToGroup.apply(x, None)"),
)

EQUIVALENT = {
    'self.bias = None if linear.bias is None else nn.Parameter(own_part(linear.bias, 0, group, "output features")) '
    "| 0 → (-1)": "A bias has one dim: its first and its last are the same.",
}
