"""Wrong drop-in replacements."""

from tests.mutants import change

SUPER = "super().__init__(params, optimizer_class, group, **options)"
CLOSURE = "loss = None if closure is None else closure()"
ALL = 'taken.update({name: value for name, value in given.items() if name != "params"})'

CHANGES = (
    change("rate not heard", "self._copy_options(self, self.wrapped)", "pass"),
    change("options not there", ALL, 'taken["lr"] = given["lr"]'),
    change("other options not heard", "self._copy_options(self, self.wrapped)",
           '[taken.update({name: given[name] for name in ("lr", "weight_decay")}) '
           'for given, taken in zip(self.param_groups, self.wrapped.param_groups)]'),
    change("new options not copied", 'if name != "params"',
           'if name != "params" and (source is self.wrapped or name in taken)'),
    change("groups ignored", "in zip(source.param_groups, target.param_groups):",
           "in ((source.param_groups[0], taken) for taken in target.param_groups):"),
    change("options not loaded", "self.wrapped.load_state_dict(state)\n        self._copy_options(self.wrapped, self)",
           "self.wrapped.load_state_dict(state)"),
    change("options not saved", "self._copy_options(self, self.wrapped)\n        return", "return"),
    change("defaults", "self.defaults = self.wrapped.defaults", "pass"),
    change("state lost", "def state_dict", "def wrapped_state", "def load_state_dict", "def load_wrapped_state"),
    change("closure too late", CLOSURE, "", "return loss", "return None if closure is None else closure()"),
    change("closure ignored", "return loss", "return None"),
    change("closure ignored", "super().step()", "super().step(closure)"),
    change("closure twice", "super().step()", "super().step()\n        if closure is not None:\n            closure()"),
    change("closure twice", CLOSURE, f"{CLOSURE}\n        if closure is not None:\n            closure()"),
    change("closure too late", CLOSURE, "", "super().step()", "for p in self.owner:\n"
           "            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n        super().step()\n"
           "        loss = None if closure is None else closure()\n        self.wrapped.step()"),
    change("gradients left", "def state_dict", "def zero_grad(self): self.wrapped.zero_grad()\n\n    def state_dict"),
    change("super forgotten", SUPER, "self.wrapped = optimizer_class(params, **options)"),
    change("group demanded", SUPER, f"group.size(); {SUPER}"),
    change("group ignored", SUPER, "super().__init__(params, optimizer_class, **options)"),
    change("not an optimizer", "(ShardedOptimizer)", "", SUPER,
           "self.sharded = ShardedOptimizer(params, optimizer_class, group, **options)\n"
           "        self.wrapped, self.param_groups = self.sharded.wrapped, self.sharded.param_groups",
           "super().step()", "self.sharded.step()"),
    change("not sharded", SUPER, f"{SUPER}\n        self.wrapped = optimizer_class(self.param_groups, **options)"),
)
