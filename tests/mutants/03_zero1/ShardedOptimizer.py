"""Wrong sharded optimizers."""

from tests.mutants import change

REDUCE = "dist.reduce(p.grad, group=self.group, group_dst=self.owner[p], async_op=True)"
ALL_REDUCE = "dist.all_reduce(p.grad, group=self.group, async_op=True)"
COPIES = "[dist.broadcast(p.data, group=self.group, group_src=self.owner[p], async_op=True) for p in trained]"
OWN_PART = '[group | {"params": [p for p in group["params"] if self.owner[p] == rank]} for group in groups]'
SUPER = "super().__init__(params, options)"

CHANGES = (
    change("sum for mean", "p.grad /= dist.get_world_size(self.group)", "pass"),
    change("gradients not reduced", f"[{REDUCE} for p in trained]", "[]"),
    change("parameters not sent", COPIES, "[]", "require_equal(params, self.group)", "pass"),
    change("old plan", "self.wrapped = group, {}, None", "self.wrapped = group, {}, None\n        self.plan = None",
           "trained = [p for p in self.owner if p.grad is not None]",
           "self.plan = self.plan or [p for p in self.owner if p.grad is not None]\n"
           "        trained = [p for p in self.plan if p.grad is not None]"),
    change("not sharded", OWN_PART, "groups", REDUCE, ALL_REDUCE, COPIES, "[]"),
    change("library call", REDUCE, ALL_REDUCE),
    change("state not divided", "partition_tensors([p.numel() for p in params], dist.get_world_size(self.group))",
           "(number % dist.get_world_size(self.group) for number in range(len(params)))"),
    change("too many bytes", COPIES, f"{COPIES} + {COPIES}"),
    change("groups ignored", OWN_PART, "[{'params': [p for p in params if self.owner[p] == rank]}]"),
    change("divided by the world", "p.grad /= dist.get_world_size(self.group)", "p.grad /= dist.get_world_size()"),
    change("options not loaded", "self._copy_options(self.wrapped, self)\n        ### END SOLUTION", "### END SOLUTION"),
    change("options not saved", "self._copy_options(self, self.wrapped)\n        return", "return"),
    change("closure too late", "loss = None if closure is None else closure()", "", "return loss",
           "return None if closure is None else closure()"),
    change("closure after reduction", "loss = None if closure is None else closure()", "",
           "self._copy_options(self, self.wrapped)\n        self.wrapped.step()",
           "self._copy_options(self, self.wrapped)\n        loss = self.wrapped.step(closure)"),
    change("closure twice", "self.wrapped.step()", "self.wrapped.step(closure)"),
    change("zeros for None", "trained = [", "for p in self.owner:\n"
           "            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n        trained = ["),
    change("another type on the way", REDUCE, "dist.reduce(p.grad.float(), group=self.group, group_dst=self.owner[p], "
           "async_op=True)"),
    change("group demanded", "partition_tensors([p.numel() for p in params], dist.get_world_size(self.group))",
           "partition_tensors([p.numel() for p in params], self.group.size())"),
    change("generator", "params = list(params)\n        if not params:", "if not list(params):"),
    change("not all take part", "trained = [p for p in self.owner if p.grad is not None]",
           "trained = [p for p in self.owner if p.grad is not None and (dist.get_rank(self.group) or p.dim() > 1)]"),
    change("state lost", "def state_dict", "def wrapped_state", "def load_state_dict", "def load_wrapped_state"),
    change("rate not heard", "self._copy_options(self, self.wrapped)", "pass"),
    change("options not there", 'taken.update({name: value for name, value in given.items() if name != "params"})',
           'taken["lr"] = given["lr"]'),
    change("other options not heard", "self._copy_options(self, self.wrapped)",
           '[taken.update({name: given[name] for name in ("lr", "weight_decay")}) '
           'for given, taken in zip(self.param_groups, self.wrapped.param_groups)]'),
    change("new options not copied", 'if name != "params"',
           'if name != "params" and (source is self.wrapped or name in taken)'),
    change("accepted", "require_equal(params, self.group)", "require_equal(groups[0]['params'], self.group)"),
    change("defaults", "self.defaults = self.wrapped.defaults", "pass"),
    change("closure ignored", "return loss", "return None"),
    change("gradients left", "def state_dict", "def zero_grad(self): self.wrapped.zero_grad()\n\n    def state_dict"),
    change("no gradient", " if p.grad is not None", ""),
    change("group ignored", "group=self.group, group_src=self.owner[p]", "src=self.owner[p]"),
    change("super forgotten", SUPER, "pass"),
    change("not an optimizer", "(torch.optim.Optimizer)", "", SUPER,
           "self.param_groups = optimizer_class(params, **options).param_groups"),
)

EQUIVALENT = {
    "self.wrapped.add_param_group(*self._share_out(self.param_groups[-1:])) | "
    "self.wrapped.add_param_group(*self._share_out(self.param_groups[-1:])) → pass":
        "Nobody is asked to take groups after the constructor.",
    "self.wrapped.add_param_group(*self._share_out(self.param_groups[-1:])) | -1 → 1":
        "Nobody is asked to take groups after the constructor.",
    "self.wrapped.add_param_group(*self._share_out(self.param_groups[-1:])) | 1 → 0":
        "Nobody is asked to take groups after the constructor.",
    "self.wrapped.add_param_group(*self._share_out(self.param_groups[-1:])) | 1 → 2":
        "Nobody is asked to take groups after the constructor.",
}
