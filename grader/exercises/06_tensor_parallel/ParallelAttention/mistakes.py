"""Wrong attention in parallel."""

import itertools

from grader.exercises.references import change

_F, _ATTEND, _RETURN = "CopyToGroup.apply(x_BTD, self.group)", "y_BHTK = F.scaled", "return self.out("
_LAYERS, _SUM = "self.q, self.k, self.v = (", "ReduceFromGroup.apply(F.linear(x, self.weight), self.group)"

CHANGES = (
    change("sizes not checked", 'own_slice(n_kv_heads, group, "heads of k and v")', "pass"),
    change("all heads of k and v", "self.out = Row", "self.k, self.v = k, v\n        self.out = Row",
           _ATTEND, "rank, each = dist.get_rank(self.group), self.q.weight.shape[0] // self.head_size\n"
                    "        times = each * dist.get_world_size(self.group) // k_BHTK.shape[1]\n"
                    "        k_BHTK, v_BHTK = (one.repeat_interleave(times, 1)[:, rank * each:(rank + 1) * each]\n"
                    f"                          for one in (k_BHTK, v_BHTK))\n        {_ATTEND}"),
    change("heads in turn", _LAYERS,
           "n = dist.get_world_size(group)\n        with torch.no_grad():\n"
           "            for p, dim in ((q.weight, 0), (q.bias, 0), (out.weight, 1)):\n"
           "                if p is not None:\n"
           "                    heads = p.unflatten(dim, (n_heads // n, n, -1)).transpose(dim, dim + 1)\n"
           f"                    p.copy_(heads.flatten(dim, dim + 2))\n        {_LAYERS}"),
    change("heads not put back", "y_BHTK.transpose(1, 2).flatten(2)", "y_BHTK.reshape(*x_BTD.shape[:2], -1)"),
    *(change("other scale", "is_causal=True", f"is_causal=True, scale={scale}") for scale in (
        "1.0", "1 / self.head_size", "x_BTD.shape[-1] ** -0.5", "self.q.weight.shape[0] ** -0.5",
        "(self.q.weight.shape[0] * dist.get_world_size(self.group)) ** -0.5",
        "(x_BTD.shape[-1] / (q_BHTK.shape[1] * dist.get_world_size(self.group))) ** -0.5")),
    change("only in groups", "ColumnParallelLinear(layer, group, copy=False)", "ColumnParallelLinear(layer, copy=False)"),
    change("bias taken for granted", "None if linear.bias is None else nn", "nn", of="ColumnParallelLinear"),
    change("kv heads in turn", _ATTEND,
           "k_BHTK, v_BHTK = (one.repeat(1, q_BHTK.shape[1] // one.shape[1], 1, 1) for one in (k_BHTK, v_BHTK))\n"
           f"        {_ATTEND}"),
    change("not causal", "is_causal=True, ", ""),
    change("f missing", _F, "x_BTD"),
    *(change("f on some of q, k, v", f"x_BTD = {_F}", f"plain_BTD, x_BTD = x_BTD, {_F}",
             "layer(x_BTD)", f"layer(x_BTD if layer in ({''.join(f'self.{name}, ' for name in behind_f)}) else plain_BTD)")
      for count in (1, 2) for behind_f in itertools.combinations("qkv", count)),
    change("dx times n", _F, f"CopyToGroup.apply({_F}, self.group)"),
    change("summed both ways", "F.linear(x, self.weight)", "CopyToGroup.apply(F.linear(x, self.weight), self.group)",
           of="RowParallelLinear"),
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
    change("wrong y", "unflatten(-1, (-1, self.head_size)).transpose(1, 2)",
           "unflatten(-1, (self.head_size, -1)).permute(0, 3, 1, 2)"),
    change("group ignored", _F, "CopyToGroup.apply(x_BTD, None)"),
    change("part missing", "self.q, self.k, self.v = (", "self.queries, self.k, self.v = (",
           "(self.q, self.k, self.v))", "(self.queries, self.k, self.v))"),
)

EQUIVALENT = {
    "q_BHTK, k_BHTK, v_BHTK = (layer(x_BTD).unflatten(-1, (-1, self.head_size)).transpose(1, 2) | "
    "layer(x_BTD).unflatten(-1, (-1, self.head_size)).transpose(1, 2) → layer(x_BTD).unflatten(-1, (-1, "
    "self.head_size)).transpose(2, 1)": "The two dims change places, in whatever order they are named.",
    "return self.out(y_BHTK.transpose(1, 2).flatten(2)) | y_BHTK.transpose(1, 2) → y_BHTK.transpose(2, 1)":
        "The two dims change places, in whatever order they are named.",
}
