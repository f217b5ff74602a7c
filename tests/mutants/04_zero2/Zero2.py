"""Wrong trainers with gradients in shards."""

from tests.mutants import change

REDUCE = "dist.reduce_scatter_single(mean, flat, group=self.group)"
GATHER = "dist.all_gather_single(whole, shard.detach(), group=self.group)"
HOOK, STEP = "parameter.register_post_accumulate_grad_hook(self._reduce)", "self.optimizer.step()"
COPY = "parameter.data.copy_(whole[:parameter.numel()].view_as(parameter))"
AFTER_STEP = "### END SOLUTION\n\n    def zero_grad"

CHANGES = (
    change("divided in the step", "        mean /= self.n\n", "", STEP, "[p.grad.div_(self.n) for p in self.shards.values() "
           "if p.grad is not None]; " + STEP),
    change("second step lost", "shard.grad + mean", "shard.grad + mean\n        shard.fresh = True",
           "if shard.grad is not None:", "if getattr(shard, 'fresh', False):",
           COPY, f"{COPY}\n                shard.fresh = False"),
    change("copy written to", COPY, "parameter.data.flatten()[:] = whole[:parameter.numel()]"),
    change("no zero_grad", "def zero_grad", "def forget"),
    change("nothing trained", "for parameter, shard in self.shards.items():", "for parameter, shard in ():"),
    change("ranks drift apart", GATHER, "whole = self._pieces(parameter.detach()).clone(); "
           "whole[dist.get_rank(self.group)] = shard.detach(); whole = whole.flatten()"),
    change("gradients pile up", "shard.grad = None", "pass"),
    change("full gradients", HOOK, "pass", STEP,
           f"[self._reduce(parameter) for parameter in self.shards if parameter.grad is not None]; {STEP}"),
    change("rows wait", "optimizer_class(self.shards.values(), **options)",
           "optimizer_class(self.shards.values(), **options)\n        self.under_way = []",
           "mean /= self.n\n        shard.grad = mean if shard.grad is None else shard.grad + mean",
           "self.under_way.append((shard, mean, flat, work))", REDUCE, f"work = {REDUCE[:-1]}, async_op=True)",
           STEP, f"""for shard, mean, flat, work in self.under_way:
            work.wait()
            mean /= self.n
            shard.grad = mean if shard.grad is None else shard.grad + mean
        self.under_way = []
        {STEP}"""),
    change("no shards of padding", "optimizer_class(self.shards.values()",
           "optimizer_class([s for p, s in self.shards.items() if dist.get_rank(group) * len(s) < p.numel()]"),
    change("too many bytes", GATHER, f"{GATHER}; {GATHER}"),
    change("not sharded", "optimizer_class(self.shards.values()", "optimizer_class(trained", STEP, "pass",
           "shard.detach()", "shard.grad", COPY, "parameter.grad = whole[:parameter.numel()].view_as(parameter)",
           AFTER_STEP, f"{STEP}\n        for p in self.shards:\n            p.grad = None\n        {AFTER_STEP}"),
    change("no gradient", STEP, f"[shard.grad.div_(1) for shard in self.shards.values()]; {STEP}"),
    change("other dtype", "torch.empty_like(shard)", "torch.empty(shard.shape)"),
    change("no optimizer", "self.optimizer", "self.hidden"),
    change("sum for mean", "mean /= self.n", "pass"),
    change("divided by the world", "mean /= self.n", "mean /= dist.get_world_size()"),
    change("divided twice", "mean /= self.n", "mean /= self.n**2"),
    change("mean over passes", "shard.grad + mean", "(shard.grad + mean) / 2"),
    change("options dropped", "values(), **options)", "values(), lr=options['lr'])"),
    change("one step behind", STEP, "pass", AFTER_STEP, f"{STEP}\n        {AFTER_STEP}"),
    change("zeros for None", "shard.grad = None", "shard.grad = torch.zeros_like(shard)"),
    change("step forgets", AFTER_STEP, f"self.zero_grad()\n        {AFTER_STEP}"),
    change("more kept", "[dist.get_rank(group)].clone()", "[dist.get_rank(group)]"),
    change("another type on the way", REDUCE, "short = mean.float(); "
           "dist.reduce_scatter_single(short, flat.float(), group=self.group); mean = short.to(mean.dtype)"),
    change("shards of another type", "[dist.get_rank(group)].clone()", "[dist.get_rank(group)].clone().float()",
           "mean /= self.n",
           "mean /= self.n; mean = mean.to(shard.dtype)", "mean = torch.empty_like(shard)",
           "mean = flat.new_empty(len(shard))", "whole = shard.new_empty(", "whole = parameter.new_empty(",
           "dist.all_gather_single(whole, shard.detach(), group",
           "dist.all_gather_single(whole, shard.detach().to(parameter.dtype), group"),
    change("accepted", "require_equal(trained, group)", "pass"),
    change("optimizer replaced", STEP, f"{STEP}; self.optimizer = type(self.optimizer)(self.shards.values(), "
           "lr=self.optimizer.param_groups[0]['lr'])"),
    change("group demanded", "dist.get_world_size(group)", "group.size()"),
    change("not all take part", "parameter.grad = None", "parameter.grad = None\n"
           "        if dist.get_rank(self.group) == 1 and len(flat) < 4:\n            return"),
    change("last pass only", "mean if shard.grad is None else shard.grad + mean", "mean"),
    change("hooked twice", "for parameter in trained:\n",
           "for parameter in [p for one in module.modules() for p in one._parameters.values() if p in self.shards]:\n"),
    change("library call", REDUCE, "dist.all_reduce(flat, group=self.group); "
           "mean = flat.view(self.n, -1)[dist.get_rank(self.group)].clone()"),
    change("not padded", "F.pad(x.flatten(), (0, -x.numel() % self.n))", "x.flatten()[:x.numel() // self.n * self.n]"),
)

EQUIVALENT = {
    "self.shards = {p: nn.Parameter(self._pieces(p.detach())[dist.get_rank(group)].clone()) for p in trained} | "
    "p.detach() → p": "A new parameter takes the numbers alone: no graph is kept.",
    "dist.all_gather_single(whole, shard.detach(), group=self.group) | shard.detach() → shard":
        "A collective reads the numbers alone, and no graph comes of it.",
}
