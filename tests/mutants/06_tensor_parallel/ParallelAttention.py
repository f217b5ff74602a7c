"""Wrong attention in parallel."""

from tests.mutants import change

_F, _ATTEND, _RETURN = "CopyToGroup.apply(x_BTD, self.group)", "y_BHTK = F.scaled", "return self.out("
_SPLIT, _SUM = "self.q, self.out = Col", "ReduceFromGroup.apply(F.linear(x, self.weight), self.group)"

CHANGES = (
    change("sizes not checked", 'own_slice(n_heads, group, "heads")', "slice(0, n_heads // n)"),
    change("heads in turn", _SPLIT,
           "with torch.no_grad():\n"
           "            for p, dim in ((q.weight, 0), (q.bias, 0), (out.weight, 1)):\n"
           "                if p is not None:\n"
           "                    heads = p.unflatten(dim, (n_heads // n, n, -1)).transpose(dim, dim + 1)\n"
           f"                    p.copy_(heads.flatten(dim, dim + 2))\n        {_SPLIT}"),
    change("wrong kv head", "self.first_kv = ", "self.first_kv = rank % n_kv_heads if n > n_kv_heads else "),
    change("kv not summed", "if self.n_slots:", "if False:"),
    change("kv summed for nothing", "if self.n_slots:", "if True:", "slots = grad",
           "if not self.n_slots:\n            gradient = gradient.clone()\n"
           "            dist.all_reduce(gradient, group=self.group)\n            return gradient\n        slots = grad"),
    change("summed anew", "p.register_hook(self.summed)",
           "p.register_post_accumulate_grad_hook(lambda p: p.grad.copy_(self.summed(p.grad)) is None or None)"),
    change("kv weights summed only", "if self.n_slots:", 'if self.n_slots and name == "weight":'),
    change("one of k and v summed", "self.own_heads(v, n_kv_heads)\n",
           "self.own_heads(v, n_kv_heads)\n        for p in self.v.parameters():\n            p._backward_hooks = None\n"),
    change("shared gradient averaged", "return slots[self.first_kv]",
           "return slots[self.first_kv] * self.n_slots / dist.get_world_size(self.group)"),
    change("shared heads refused", "if n_kv_heads % n and n % n_kv_heads:", "if n_kv_heads % n:"),
    change("heads not put back", "y_BHTK.transpose(1, 2).flatten(2)", "y_BHTK.reshape(*x_BTD.shape[:2], -1)"),
    change("other scale", "is_causal=True", "is_causal=True, scale=1.0"),
    change("only in groups", "self.first_kv = rank", "self.first_kv = dist.get_rank()"),
    change("bias taken for granted", "for name, p in own.named_parameters():",
           'own.bias = own.bias if own.bias is not None else nn.Parameter(whole.bias.data[rows])\n        '
           "for name, p in own.named_parameters():"),
    change("kv heads in turn", _ATTEND,
           "k_BHTK, v_BHTK = (one.repeat(1, q_BHTK.shape[1] // one.shape[1], 1, 1) for one in (k_BHTK, v_BHTK))\n"
           f"        {_ATTEND}"),
    change("not causal", "is_causal=True, ", ""),
    change("f missing", _F, "x_BTD"),
    change("f on some of q, k, v", f"x_BTD = {_F}", f"plain_BTD, x_BTD = x_BTD, {_F}",
           "layer(x_BTD)", "layer(x_BTD if layer is self.q else plain_BTD)"),
    change("dx times n", _F, f"CopyToGroup.apply({_F}, self.group)"),
    change("summed both ways", "F.linear(x, self.weight)", "CopyToGroup.apply(F.linear(x, self.weight), self.group)",
           of="RowParallelLinear"),
    change("shared gradient times n", "return slots[self.first_kv]",
           "dist.all_reduce(slots, group=self.group)\n        return slots[self.first_kv] / self.n_slots"),
    change("y not summed", _SUM, "F.linear(x, self.weight)", of="RowParallelLinear"),
    change("bias n times", "F.linear(x, self.weight)", "F.linear(x, self.weight, self.bias)",
           "y if self.bias is None else y + self.bias", "y", of="RowParallelLinear"),
    change("not one all-reduce backward", f"x_BTD = {_F}", "pass", "layer(x_BTD)", f"layer({_F})"),
    change("library call", _RETURN,
           "part = y_BHTK.detach().contiguous()\n"
           "        parts = [torch.empty_like(part) for _ in range(dist.get_world_size(self.group))]\n"
           f"        dist.all_gather(parts, part, group=self.group)\n        {_RETURN}"),
    change("whole weights kept alive", 'own_part(linear.weight, 0, group, "output features")',
           "linear.weight.detach()[own_slice(linear.out_features, group)]", of="ColumnParallelLinear"),
    change("wrong y", "unflatten(-1, (heads, -1)).transpose(1, 2)", "unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)"),
    change("part missing", "self.q,", "self.queries,"),
)

EQUIVALENT = {
    "q_BHTK, k_BHTK, v_BHTK = (layer(x_BTD).unflatten(-1, (heads, -1)).transpose(1, 2) for layer, heads in layers) "
    "| layer(x_BTD).unflatten(-1, (heads, -1)).transpose(1, 2) → layer(x_BTD).unflatten(-1, (heads, "
    "-1)).transpose(2, 1)": "The two dims change places, in whatever order they are named.",
    "return self.out(y_BHTK.transpose(1, 2).flatten(2)) | y_BHTK.transpose(1, 2) → y_BHTK.transpose(2, 1)":
        "The two dims change places, in whatever order they are named.",
}
