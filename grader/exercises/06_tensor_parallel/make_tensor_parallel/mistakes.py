"""Wrong GPTs in parallel."""

from grader.exercises.references import change

_BY_HEADS = "p.unflatten(0, (3, n, -1)).transpose(0, 1).flatten(0, 2)"
_F = "CopyToGroup.apply(x, self.group)"

CHANGES = (
    change("sizes not checked", 'own_slice(block.n_heads, group, "heads")', "slice(0, block.n_heads // n)"),
    change("qkv cut through", f"p.copy_({_BY_HEADS})", "pass"),
    change("qkv cut through in part", f"p.copy_({_BY_HEADS})", f"p.copy_({_BY_HEADS} if p.dim() > 1 else p)"),
    change("qkv cut through in part", f"p.copy_({_BY_HEADS})", f"p.copy_({_BY_HEADS} if p.dim() == 1 else p)"),
    change("q, k and v exchanged", _BY_HEADS, _BY_HEADS.replace("(3, n, -1))", "(3, n, -1)).flip(0)")),
    change("qkv taken by head", _BY_HEADS, "p.unflatten(0, (n, own.stop - own.start, 3, -1)).transpose(1, 2).flatten(0, 3)"),
    change("too much split", "return model",
           "model.head = ColumnParallelLinear(model.head, group)\n    return model"),
    change("sizes", "ColumnParallelLinear(block.up, group)", "RowParallelLinear(block.up, group)",
           "RowParallelLinear(block.down, group)", "ColumnParallelLinear(block.down, group)"),
    change("only in groups", "RowParallelLinear(block.down, group)", "RowParallelLinear(block.down)"),
    change("group ignored", _F, "CopyToGroup.apply(x, None)", of="ColumnParallelLinear"),
    change("heads not divided", "block.n_heads = own.stop - own.start", "pass"),
    change("dx not summed", f"x = {_F}", "pass", of="ColumnParallelLinear"),
    change("dx summed twice", _F, f"CopyToGroup.apply({_F}, self.group)", of="ColumnParallelLinear"),
    change("summed both ways", "F.linear(x, self.weight)", "CopyToGroup.apply(F.linear(x, self.weight), self.group)",
           of="RowParallelLinear"),
    change("split gradients changed", "F.linear(x, self.weight,", "F.linear(x, CopyToGroup.apply(self.weight, self.group),",
           of="ColumnParallelLinear"),
    change("whole biases' gradients", "y + self.bias", "y + CopyToGroup.apply(self.bias, self.group)",
           of="RowParallelLinear"),
    change("bias n times", "F.linear(x, self.weight)", "F.linear(x, self.weight, self.bias)",
           "y if self.bias is None else y + self.bias", "y", of="RowParallelLinear"),
    change("not split", "ColumnParallelLinear(block.up, group)", "block.up",
           "RowParallelLinear(block.down, group)", "block.down"),
    change("whole weights kept alive", 'own_part(linear.weight, 0, group, "output features")',
           "linear.weight.detach()[own_slice(linear.out_features, group)]", of="ColumnParallelLinear"),
    change("nothing returned", "return model", "pass"),
    change("other names", "n = dist", "import copy\n    model.head = copy.deepcopy(model.head)\n    n = dist"),
    change("wrong part", _BY_HEADS, "p.unflatten(0, (-1, n)).transpose(0, 1).flatten(0, 1)"),
    change("not two all-reduces a layer, backward", _F,
           "CopyToGroup.apply(x / 2, self.group) + CopyToGroup.apply(x / 2, self.group)", of="ColumnParallelLinear"),
    change("library call", "return model",
           "part = model.blocks[0].up.weight.data\n"
           "    dist.all_gather([torch.empty_like(part) for _ in range(n)], part, group=group)\n    return model"),
)

EQUIVALENT = {
    "p.copy_(p.unflatten(0, (3, n, -1)).transpose(0, 1).flatten(0, 2)) | p.unflatten(0, (3, n, -1)).transpose(0, "
    "1) → p.unflatten(0, (3, n, -1)).transpose(1, 0)": "The two dims change places, in whatever order they are named.",
}
