"""Wrong blocks in pieces."""

from tests.mutants import change

REDUCE = "reduce_replicated_gradients(replicated(self.block), self.group)"
NORMS = "[p for norm in (self.block.attention_norm, self.block.mlp_norm) for p in norm.parameters()]"
LINEAR = "GatherLinear.apply(block.{0}(x_PBD), block.{1}.weight, block.{1}.bias, group)"
GATHER_THEN_LINEAR = "block.{1}(GatherSequence.apply(block.{0}(x_PBD), group))"
CUT = ("attention_norm", "qkv"), ("mlp_norm", "up")

CHANGES = (
    change("norms not reduced", REDUCE, "pass"),
    change("norms averaged", REDUCE, f"{REDUCE}\n        for p in replicated(self.block):\n"
                                     "            p.grad /= dist.get_world_size(self.group)"),
    change("biases left out", REDUCE, f"reduce_replicated_gradients({NORMS}, self.group)"),
    change("bias on every rank", "layer.weight), self.group) + layer.bias", "layer.weight, layer.bias), self.group)"),
    change("bias forgotten", "+ layer.bias", "+ 0 * layer.bias"),
    change("all-reduce left", "return GatherSequence.scattered(x_SBD, group)",
           "dist.all_reduce(x_SBD := x_SBD.clone(), group=group); return x_SBD.chunk(n)[dist.get_rank(group)].clone()",
           of="ScatterSequence"),
    change("whole kept", *[way.format(*names) for names in CUT for way in (LINEAR, GATHER_THEN_LINEAR)]),
    change("wrong dx", "return dx_PBI", "return dx_SBI.chunk(n)[dist.get_rank(group)].clone()", of="GatherLinear"),
    change("same masks", " + dist.get_rank(group)", "", of="local_dropout"),
    change("wrong dropout", "3 * seed + number", "3 * seed + 2 - number"),
    change("weights not cut", "self.group = group", "self.group, self.whole = group, block"),
    change("bias after dropout", "ScatterSequence.apply(F.linear(x_SBI, layer.weight), self.group) + layer.bias",
           "ScatterSequence.apply(F.linear(x_SBI, layer.weight), self.group)",
           "self.summed(block.out, y_SBE))", "self.summed(block.out, y_SBE)) + block.out.bias",
           "block.gelu(y_SBM)))", "block.gelu(y_SBM))) + block.down.bias"),
    change("sum divided", ", self.group) + layer", ", self.group) / dist.get_world_size(self.group) + layer"),
    change("heads of all", "cut_block(block, dist.get_rank(group), dist.get_world_size(group))", "cut_block(block, 0, 1)"),
    change("gelu forgotten", "block.gelu(y_SBM)", "y_SBM"),
    change("one norm", "block.mlp_norm", "block.attention_norm"),
    change("norm added", "return x_PBD +", "return block.mlp_norm(x_PBD) +"),
    change("halves side by side", "x_PBD = x_PBD + drop(1", "h = x_PBD + drop(1", "return x_PBD", "return h"),
    change("attention not added", "x_PBD = x_PBD + drop(1", "x, x_PBD = x_PBD, x_PBD + drop(1", "return x_PBD", "return x"),
    change("weights not dropped", "drop(0, weights)", "weights"),
    change("seed 0 for none", "seed is None", "not seed"),
    change("off in eval mode", "seed is None", "seed is None or not self.training"),
    change("dropout without a seed", "lambda weights: drop(0, weights)",
           "seed is not None and (lambda weights: drop(0, weights)) or None"),
    change("only in groups", "number, group)", "number, None)"),
    change("cut weights summed", "replicated(self.block), self", "list(self.block.parameters()), self"),
    change("wrong y", "+ drop(2", "- drop(2"),
    change("wrong gradients", REDUCE, REDUCE + "; [p.grad.add_(1) for p in self.block.parameters()]"),
    change("not refused", "self.group = group", "self.group, block.n_heads = group, dist.get_world_size(group)"),
    change("group ignored", "replicated(self.block), self.group", "replicated(self.block), None"),
    change("too many bytes", "return x_PBD + drop(2", "GatherSequence.gathered(x_PBD.detach(), group)\n"
                                                      "        return x_PBD + drop(2"),
)
