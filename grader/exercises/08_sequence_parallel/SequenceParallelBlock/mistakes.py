"""Wrong blocks in pieces."""

from grader.exercises.references import Change, change

REDUCE = "reduce_replicated_gradients(replicated(self.block), self.group)"
NORMS = "[p for norm in (self.block.attention_norm, self.block.mlp_norm) for p in norm.parameters()]"
LINEAR = "GatherLinear.apply(block.{0}(x_PBD), block.{1}.weight, block.{1}.bias, group)"
GATHER_THEN_LINEAR = "block.{1}(GatherSequence.apply(block.{0}(x_PBD), group))"
CUT = ("attention_norm", "qkv"), ("mlp_norm", "up")
SUMMED = "ScatterSequence.apply(F.linear(x_SBI, layer.weight), self.group) + layer.bias"


def _summed(id: str, otherwise: str) -> tuple[Change, ...]:
    """What out and down put out is summed over ranks otherwise; both layers', or one's."""
    return (change(id, SUMMED, otherwise),
            *(change(id, SUMMED, f"{otherwise} if layer is self.block.{layer} else {SUMMED}") for layer in ("out", "down")))


CHANGES = (
    change("norms not reduced", REDUCE, "pass"),
    change("norms averaged", REDUCE, f"{REDUCE}\n        for p in replicated(self.block):\n"
                                     "            p.grad /= dist.get_world_size(self.group)"),
    change("biases left out", REDUCE, f"reduce_replicated_gradients({NORMS}, self.group)"),
    *_summed("bias on every rank", "ScatterSequence.apply(layer(x_SBI), self.group)"),
    *_summed("bias forgotten", "ScatterSequence.apply(F.linear(x_SBI, layer.weight), self.group)"),
    change("all-reduce left", "return GatherSequence.scattered(x_SBD, group)",
           "dist.all_reduce(x_SBD := x_SBD.clone(), group=group); return x_SBD.chunk(n)[dist.get_rank(group)].clone()",
           of="ScatterSequence"),
    change("whole kept", *[way.format(*names) for names in CUT for way in (LINEAR, GATHER_THEN_LINEAR)]),
    change("wrong dx", "return dx_PBI", "return dx_SBI.chunk(n)[dist.get_rank(group)].clone()", of="GatherLinear"),
    change("wrong dropout", "return x_PBD + block.mlp_dropout", "torch.rand(1)\n        return x_PBD + block.mlp_dropout"),
    change("weights not cut", "self.group = group", "self.group, self.whole = group, block"),
    change("wrong dropout", "ScatterSequence.apply(F.linear(x_SBI, layer.weight), self.group) + layer.bias",
           "ScatterSequence.apply(F.linear(x_SBI, layer.weight), self.group)",
           "self.summed(block.out, block.attention(qkv_SBQ)))",
           "self.summed(block.out, block.attention(qkv_SBQ))) + block.out.bias",
           "block.gelu(y_SBU)))", "block.gelu(y_SBU))) + block.down.bias"),
    change("sum divided", ", self.group) + layer", ", self.group) / dist.get_world_size(self.group) + layer"),
    change("heads of all", "cut_block(block, dist.get_rank(group), dist.get_world_size(group))", "cut_block(block, 0, 1)"),
    change("gelu forgotten", "block.gelu(y_SBU)", "y_SBU"),
    change("one norm", "block.mlp_norm", "block.attention_norm"),
    change("norm added", "return x_PBD +", "return block.mlp_norm(x_PBD) +"),
    change("norm added", "x_PBD = x_PBD + block", "x_PBD = block.attention_norm(x_PBD) + block"),
    change("norm added", "return x_PBD +", "return block.mlp_norm(x_PBD) +",
           "x_PBD = x_PBD + block", "x_PBD = block.attention_norm(x_PBD) + block"),
    change("halves side by side", "x_PBD = x_PBD + block", "h = x_PBD + block", "return x_PBD", "return h"),
    change("halves side by side", "x_PBD = x_PBD + block", "x, x_PBD = x_PBD, x_PBD + block", "return x_PBD", "return x"),
    change("wrong dropout", "block.attention(qkv_SBQ)", "block.attention(qkv_SBQ, lambda weights: weights)"),
    change("wrong dropout", "block.attention_dropout(", "(", "block.mlp_dropout(", "("),
    change("wrong dropout", "block, group = self.block, self.group", "block, group = self.block.eval(), self.group"),
    change("drops in eval mode", "block, group = self.block, self.group", "block, group = self.block.train(), self.group"),
    change("only in groups", "cut_block(block, dist.get_rank(group)",
           "cut_block(block, dist.get_rank() % dist.get_world_size(group)"),
    change("cut weights summed", "replicated(self.block), self", "list(self.block.parameters()), self"),
    change("wrong y", "+ block.mlp_dropout", "- block.mlp_dropout"),
    change("wrong gradients", REDUCE, REDUCE + "; [p.grad.add_(1) for p in self.block.parameters()]"),
    change("not refused", "self.group = group", "self.group, block.n_heads = group, dist.get_world_size(group)"),
    change("group ignored", "replicated(self.block), self.group", "replicated(self.block), None"),
    change("too many bytes", "return x_PBD + block", "GatherSequence.gathered(x_PBD.detach(), group)\n"
                                                     "        return x_PBD + block"),
)
