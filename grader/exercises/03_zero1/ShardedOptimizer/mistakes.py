"""Wrong sharded optimizers."""

from grader.exercises.references import change

REDUCE = "dist.reduce(p.grad, group=self.group, group_dst=self.owner[p])"
ALL_REDUCE = "dist.all_reduce(p.grad, group=self.group)"
SEND = "dist.broadcast(p.data, group=self.group, group_src=self.owner[p])"
OWN_PART = '[one | {"params": [p for p in one["params"] if self.owner[p] == rank]} for one in self.param_groups]'
SUPER = "super().__init__(params, options)"
MEAN = "p.grad /= self.n"

CHANGES = (
    change("sum for mean", MEAN, "pass"),
    change("gradients not reduced", REDUCE, "pass"),
    change("gradients not reduced", REDUCE, "pass", MEAN, "pass"),
    change("gradients not reduced", REDUCE, REDUCE.replace("p.grad", "p.grad.clone()"), MEAN, "pass"),
    change("parameters not sent", SEND, "pass", "require_equal(params, group)", "pass"),
    change("old plan", "self.group, self.n, rank =", "self.plan = None\n        self.group, self.n, rank =",
           "trained = [p for p in self.owner if p.grad is not None]",
           "self.plan = [p for p in self.plan or self.owner if p.grad is not None]\n        trained = self.plan"),
    change("old plan", "self.group, self.n, rank =", "self.plan = None\n        self.group, self.n, rank =",
           "trained = [p for p in self.owner if p.grad is not None]",
           "self.plan = [p for p in self.owner if p.grad is not None] if self.plan is None else self.plan\n"
           "        trained = [p for p in self.plan if p.grad is not None]"),
    change("not sharded", OWN_PART, "self.param_groups", REDUCE, ALL_REDUCE, SEND, "pass"),
    change("library call", REDUCE, ALL_REDUCE),
    change("state not divided", "partition_tensors([p.numel() for p in params], self.n)",
           "(number % self.n for number in range(len(params)))"),
    change("too many bytes", SEND, f"{SEND}; {SEND}"),
    change("groups ignored", OWN_PART, "[{'params': [p for p in params if self.owner[p] == rank]}]"),
    change("divided by the world", MEAN, "p.grad /= dist.get_world_size()"),
    change("zeros for None", "trained = [", "for p in self.owner:\n"
           "            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n        trained = ["),
    change("another type on the way", REDUCE, "dist.reduce(p.grad.float(), group=self.group, group_dst=self.owner[p])"),
    change("group demanded", "self.n, rank = group, dist.get_world_size(group)", "self.n, rank = group, group.size()"),
    change("generator", f"{SUPER}  # self.param_groups: all parameters\n", f"len(list(params)); {SUPER}\n"),
    change("not all take part", "trained = [p for p in self.owner if p.grad is not None]",
           "trained = [p for p in self.owner if p.grad is not None and (dist.get_rank(self.group) or p.dim() > 1)]"),
    change("accepted", "require_equal(params, group)", "require_equal(self.param_groups[0]['params'], group)"),
    change("no gradient", " if p.grad is not None", ""),
    change("group ignored", "group=self.group, group_src=self.owner[p]", "src=self.owner[p]"),
    change("super forgotten", SUPER, "self.param_groups = optimizer_class(params, **options).param_groups"),
)
