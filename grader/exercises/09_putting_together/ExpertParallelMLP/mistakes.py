"""Wrong layers of experts in pieces."""

from grader.exercises.references import change

ROUTE = "experts_Tk, weights_Tk, kept_Tk = route(self.router(x_TD), self.k, self.capacity)"
WEIGHT = " * weights_Tk[token, choice][:, None]"
ROWS = "Exchange.apply(x_TD[token], counts_ne, self.group)"
HOME = "done_QD, _ = Exchange.apply(self.computed(rows_QD, came_ne), came_ne, self.group)"
EXPERTS = 'copy.deepcopy(moe.experts[own_slice(len(moe.experts), group, "experts")])'
RETURN = "return torch.zeros_like(x_TD)"
RESTORED = "done_QD[order.argsort()]"
COMPUTED = "for expert, piece in zip(self.experts, pieces, strict=True)"
SCALE = ("class Times(torch.autograd.Function):\n"
         "            @staticmethod\n            def forward(ctx, x, factor):\n                ctx.factor = factor\n"
         "                return x.clone()\n"
         "            @staticmethod\n            def backward(ctx, dy):\n                return dy * ctx.factor, None\n"
         "        ")

CHANGES = (
    change("order not restored", RESTORED, "done_QD"),
    change("weights forgotten", WEIGHT, ""),
    change("capacity ignored", ROUTE, ROUTE.replace("self.capacity", "len(x_TD)")),
    change("weights of the kept", ROUTE, f"{ROUTE}\n        weights_Tk = weights_Tk * kept_Tk\n"
           "        weights_Tk = weights_Tk / weights_Tk.sum(1, keepdim=True).clamp(min=1e-30)"),
    change("first choices only", ROUTE, f"{ROUTE}\n        kept_Tk = kept_Tk & (torch.arange(self.k) == 0)"),
    change("choices overwritten", f"{RETURN}.index_add(0, token, done_QD{WEIGHT})",
           f"y_TD = torch.zeros_like(x_TD)\n        y_TD[token] += done_QD{WEIGHT}\n        return y_TD"),
    change("input added", RETURN, "return (x_TD * ~kept_Tk.any(1, keepdim=True))"),
    change("weighted before", ROWS, f"Exchange.apply(x_TD[token]{WEIGHT}, counts_ne, self.group)",
           f"done_QD{WEIGHT})", "done_QD)"),
    change("taken by token", ROWS, ROWS + "; token, choice = kept_Tk.nonzero(as_tuple=True)"),
    change("other experts", EXPERTS, f"{EXPERTS}; self.experts = copy.deepcopy(moe.experts[:len(self.experts)])"),
    change("other experts", EXPERTS, f"{EXPERTS}; self.experts = copy.deepcopy(moe.experts["
                                           "dist.get_rank(group)::dist.get_world_size(group)])"),
    change("input added", RETURN, "return x_TD.clone()"),
    change("wrong dx", "self.router(x_TD)", "self.router(x_TD.detach())"),
    change("router summed", "        n, e = dist.get_world_size(self.group), len(self.experts)",
           "        n, e = dist.get_world_size(self.group), len(self.experts)\n"
           "        class Summed(torch.autograd.Function):\n"
           "            @staticmethod\n            def forward(ctx, w, group):\n                ctx.group = group\n"
           "                return w.clone()\n"
           "            @staticmethod\n            def backward(ctx, dw):\n"
           "                parts = torch.cat([dw] * n)\n                got = torch.empty_like(parts)\n"
           "                dist.all_to_all_single(got, parts, group=ctx.group)\n"
           "                return got.view(n, *dw.shape).sum(0), None",
           "self.router(x_TD)", "F.linear(x_TD, Summed.apply(self.router.weight, self.group))"),
    change("experts scaled", "        n, e = came_ne.shape", f"        n, e = came_ne.shape\n        {SCALE}",
           "torch.cat([expert(piece)", "torch.cat([torch.func.functional_call(expert, {name: Times.apply(p, 1 / n) for "
                                       "name, p in expert.named_parameters()}, (piece,))"),
    change("experts scaled", "        n, e = came_ne.shape", f"        n, e = came_ne.shape\n        {SCALE}",
           "torch.cat([expert(piece)", "torch.cat([torch.func.functional_call(expert, {name: Times.apply(p, n) for name, p "
                                       "in expert.named_parameters()}, (piece,))"),
    change("experts untrained", "torch.cat([expert(piece)", "torch.cat([torch.func.functional_call(expert, {name: "
                                "p.detach() for name, p in expert.named_parameters()}, (piece,))"),
    change("group ignored", ", self.group)", ", None)"),
    change("empty rank left out", RESTORED, "done_QD[order.argsort()] if len(rows_QD) else rows_QD.detach()"),
    change("empty rank left out", COMPUTED, COMPUTED + " if len(piece)"),
    change("library call", "        return torch.zeros_like(x_TD).index_add",
           "        everybody = [x_TD.new_empty(9, x_TD.shape[1]) for _ in range(n)]\n"
           "        dist.all_gather(everybody, x_TD.new_zeros(9, x_TD.shape[1]), group=self.group)\n"
           "        return torch.zeros_like(x_TD).index_add"),
    change("more calls", HOME, f"{HOME}\n        Exchange.apply(rows_QD[:0], came_ne * 0, self.group)"),
    change("too many bytes",  # all choices travel, and what is dropped is forgotten at home
           "kept_Tk.nonzero", "torch.ones_like(kept_Tk).nonzero", "experts_Tk[kept_Tk].bin", "experts_Tk.flatten().bin",
           WEIGHT, f"{WEIGHT} * kept_Tk[token, choice][:, None]"),
    change("parameters not divided", "self.router = copy", "self.moe = moe\n        self.router = copy"),
    change("whole weight kept", "self.router = copy", "self.whole = [moe]\n        self.router = copy"),
    change("part missing", "self.experts", "self.own_experts"),
    change("counts of other rows", "experts_Tk[kept_Tk].bin", "experts_Tk.flatten().bin"),
    change("no gradient", "self.router(x_TD)", "F.linear(x_TD, self.router.weight.detach())"),
    change("no error", 'own_slice(len(moe.experts), group, "experts")',
           "(lambda e, r: slice(r * e, (r + 1) * e))(len(moe.experts) // dist.get_world_size(group), dist.get_rank(group))"),
    change("rows cut otherwise", "came_ne.sum(0)", "came_ne[0]"),
    change("wrong gradients", f"[expert(piece) {COMPUTED}]", """[torch.where(
            own[:, None], expert(piece), torch.func.functional_call(
                expert, {name: p.detach() for name, p in expert.named_parameters()}, (piece,)))
            for expert, piece, own in zip(self.experts, pieces, owns, strict=True)]""", "        pieces = ", """\
        senders = torch.arange(n).repeat_interleave(came_ne.sum(1))[order]
        owns = (senders == dist.get_rank(self.group)).split(came_ne.sum(0).tolist())
        pieces = """),
    change("more parameters", "self.router = copy", "self.extra = nn.Parameter(torch.ones(1))\n        self.router = copy",
           WEIGHT, f"{WEIGHT} * self.extra.to(x_TD.dtype)"),
    change("only in groups", "n, e = dist.get_world_size(self.group)", "n, e = dist.get_world_size()"),
    change("wrong y", RETURN, "return torch.ones_like(x_TD)"),
)

EQUIVALENT = {
    "by_expert = experts_Tk[token, choice].argsort(stable=True) | True → False":
        "rows of one expert may come in any order: each goes back to its own token.",
    "order = whose.argsort(stable=True) | True → False": "any order that sorts by expert is undone by its own inverse.",
    f"done_QD = torch.cat([expert(piece) {COMPUTED}]) | True → False": "both have one entry for each expert.",
}
