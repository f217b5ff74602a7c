"""Wrong trainers with gradients in shards."""

from grader.exercises.references import change

GATHER = "dist.all_gather_single(whole, shard.detach(), group=self.group)"
TAKEN, STEP = "shard.grad = self.buckets.shards.get(parameter)", "self.optimizer.step()"
COPY = "parameter.data.copy_(whole[:parameter.numel()].view_as(parameter))"
AFTER_STEP = "### END SOLUTION\n\n    def zero_grad"
CLEAR = "self.buckets.shards.clear()"

CHANGES = (
    change("divided twice", STEP, "[shard.grad.div_(self.n) for shard in self.shards.values() if shard.grad is not None]; "
           + STEP),
    change("divided twice", TAKEN, f"{TAKEN}\n            shard.grad = None if shard.grad is None else shard.grad / self.n"),
    change("second step lost", TAKEN, f"{TAKEN}\n            shard.fresh = shard.grad is not getattr(shard, 'last', None)\n"
           "            shard.last = shard.grad",
           "if shard.grad is not None:", "if shard.grad is not None and shard.fresh:"),
    change("copy written to", COPY, "parameter.data.flatten()[:] = whole[:parameter.numel()]"),
    change("nothing trained", "            if shard.grad is not None:", "            if False:"),
    change("ranks drift apart", GATHER, "whole = parameter.new_zeros(self.n, len(shard)); "
           "whole.view(-1)[:parameter.numel()] = parameter.detach().flatten(); "
           "whole[dist.get_rank(self.group)] = shard.detach(); whole = whole.flatten()"),
    change("gradients pile up", CLEAR, "pass"),
    change("gradients kept", "self.optimizer = ", "self.kept = []\n        for p in trained:\n"
           "            p.register_hook(lambda g: self.kept.append(g.clone()))\n        self.optimizer = ",
           CLEAR, f"{CLEAR}\n        self.kept.clear()"),
    change("no shards of padding", "optimizer_class(self.shards.values()",
           "optimizer_class([s for p, s in self.shards.items() if rank * len(s) < p.numel()]"),
    change("too many bytes", GATHER, f"{GATHER}; {GATHER}"),
    change("not sharded", "optimizer_class(self.shards.values()", "optimizer_class(trained", STEP, "pass",
           "shard.detach()", "shard.grad", COPY, "parameter.grad = whole[:parameter.numel()].view_as(parameter)",
           AFTER_STEP, f"{STEP}\n        for p in self.shards:\n            p.grad = None\n        {AFTER_STEP}"),
    change("no gradient", STEP, f"[shard.grad.div_(1) for shard in self.shards.values()]; {STEP}"),
    change("no gradient", "self.buckets.shards.get(parameter)", "self.buckets.shards[parameter]"),
    change("mean over passes", CLEAR, f"{CLEAR}; self.passes = 0", "self.buckets, self.group", "self.passes = 0\n"
           "        finish = buckets.finish\n        def counting():\n            finish()\n            self.passes += 1\n"
           "        buckets.finish = counting\n        self.buckets, self.group",
           STEP, "[shard.grad.div_(self.passes) for shard in self.shards.values() if shard.grad is not None]; " + STEP),
    change("options dropped", "values(), **options)", "values(), lr=options['lr'])"),
    change("one step behind", STEP, "pass", AFTER_STEP, f"{STEP}\n        {AFTER_STEP}"),
    change("zeros for None", "self.buckets.shards.get(parameter)",
           "self.buckets.shards.get(parameter, torch.zeros_like(shard))"),
    change("zeros for None", CLEAR, "self.buckets.shards.update({p: torch.zeros_like(s) for p, s in self.shards.items()})"),
    change("zeros for None", CLEAR, "[shard.zero_() for shard in self.buckets.shards.values()]"),
    change("step forgets", AFTER_STEP, f"self.zero_grad()\n        {AFTER_STEP}"),
    change("step forgets", "self.buckets.shards.get(parameter)", "self.buckets.shards.pop(parameter, shard.grad)"),
    change("more kept", "[rank].clone()", "[rank]"),
    change("another type on the way", GATHER, "whole = whole.float(); "
           "dist.all_gather_single(whole, shard.detach().float(), group=self.group)"),
    change("shards of another type", "[rank].clone()", "[rank].clone().float()",
           TAKEN, "taken = self.buckets.shards.get(parameter)\n"
           "            shard.grad = None if taken is None else taken.float()", "whole = shard.new_empty(",
           "whole = parameter.new_empty(", "shard.detach()", "shard.detach().to(parameter.dtype)"),
    change("accepted", "require_equal(trained, group)", "pass"),
    change("optimizer replaced", STEP, f"{STEP}; self.optimizer = type(self.optimizer)(self.shards.values(), "
           "lr=self.optimizer.param_groups[0]['lr'])"),
    change("group demanded", "dist.get_world_size(group)", "group.size()"),
    change("not all take part", "if shard.grad is not None:",
           "if shard.grad is not None and not (dist.get_rank(self.group) == 1 and parameter.numel() < 4):"),
    change("library call", GATHER,
           f"dist.reduce_scatter_single(torch.empty_like(shard), whole, group=self.group); {GATHER}"),
    change("not padded", "F.pad(parameter.detach().flatten(), (0, -parameter.numel() % self.n))",
           "parameter.detach().flatten()[:parameter.numel() // self.n * self.n]"),
)

EQUIVALENT = {
    "dist.all_gather_single(whole, shard.detach(), group=self.group) | shard.detach() → shard":
        "A collective reads the numbers alone, and no graph comes of it.",
}
