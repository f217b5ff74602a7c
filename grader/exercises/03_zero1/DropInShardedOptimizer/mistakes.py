"""Wrong drop-in replacements."""

from grader.exercises.references import change

SUPER = "super().__init__(params, optimizer_class, group, **options)"
CLOSURE = "loss = None if closure is None else closure()"
ALL = 'taken.update({name: value for name, value in given.items() if name != "params"})'
BACK, THERE = "self._copy_options(self, self.wrapped)", "self._copy_options(self.wrapped, self)"
SOME = """[taken.update({"lr": given["lr"]}) for given, taken in zip(self.param_groups, self.wrapped.param_groups)]"""

CHANGES = (
    change("rate not heard", BACK, "pass"),
    change("rate not heard", BACK,
           "[taken.update({k: v for k, v in given.items() if k != 'params'}) for given, taken in self.pairs]",
           "self.defaults", "self.pairs = list(zip(self.param_groups, self.wrapped.param_groups))\n        self.defaults"),
    change("options not there", ALL, 'taken["lr"] = given["lr"]'),
    change("other options not heard", BACK,
           '[taken.update({name: given[name] for name in ("lr", "weight_decay")}) '
           'for given, taken in zip(self.param_groups, self.wrapped.param_groups)]'),
    *(change("other options not heard", f"{BACK}\n        super().step()", f"{SOME}\n        super().step()", *more)
      for more in ((), (f"{BACK}\n        return self", f"{SOME}\n        return self"))),
    change("new options not copied", 'if name != "params"',
           'if name != "params" and (source is self.wrapped or name in taken)'),
    change("groups ignored", "in zip(source.param_groups, target.param_groups):",
           "in ((source.param_groups[0], taken) for taken in target.param_groups):"),
    change("groups ignored", BACK,
           "[taken.update({'lr': self.param_groups[0]['lr']}) for taken in self.wrapped.param_groups]"),
    change("options not loaded", f"self.wrapped.load_state_dict(state)\n        {THERE}",
           "self.wrapped.load_state_dict(state)"),
    change("options not saved", f"{BACK}\n        return", "return"),
    change("defaults", "self.defaults = self.wrapped.defaults", "pass"),
    change("state lost", "def state_dict", "def wrapped_state", "def load_state_dict", "def load_wrapped_state"),
    change("state lost", "return self.wrapped.state_dict()", "return super().state_dict()",
           "self.wrapped.load_state_dict(state)", "super().load_state_dict(state)"),
    change("state lost", "self.wrapped.load_state_dict(state)\n", "for given, taken in zip(state['param_groups'], "
           "self.wrapped.param_groups):\n            taken.update({k: v for k, v in given.items() if k != 'params'})\n"),
    change("closure too late", CLOSURE, "", "super().step()", "for p in self.owner:\n"
           "            p.had = p.grad is not None\n        loss = None if closure is None else closure()\n"
           "        for p in self.owner:\n            p.grad = p.grad if p.had else None\n        super().step()"),
    change("closure too late", CLOSURE, "", "return loss", "return None if closure is None else closure()"),
    change("closure ignored", "return loss", "return None"),
    change("closure ignored", "super().step()", "super().step(closure)"),
    change("closure twice", "super().step()", "super().step()\n        if closure is not None:\n            closure()"),
    change("closure twice", CLOSURE, f"{CLOSURE}\n        if closure is not None:\n            closure()"),
    change("closure too late", CLOSURE, "", "super().step()", "for p in self.owner:\n"
           "            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n        super().step()\n"
           "        loss = None if closure is None else closure()\n        self.wrapped.step()"),
    change("gradients left", "def state_dict", "def zero_grad(self): self.wrapped.zero_grad()\n\n    def state_dict"),
    change("group ignored", SUPER, "super().__init__(params, optimizer_class, **options)"),
    change("not sharded", SUPER, f"{SUPER}\n        self.wrapped = optimizer_class(self.param_groups, **options)"),
)
