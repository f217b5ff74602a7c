"""Wrong wrappers."""

from grader.exercises.references import change

BROADCAST = "broadcast_model(module, group)"
RESET = "self.missing, self.started = [set(bucket) for bucket in self.buckets], {}"
FLAT = "flat = torch.cat([g.flatten() for g in gradients])"
REDUCE = "dist.all_reduce(flat, group=self.group, async_op=True)"
START = f"self.started[number] = gradients, flat, {REDUCE}"
GATHER = "self.started[number] = gradients, rows, dist.all_gather(rows, flat, group=self.group, async_op=True)"
WAIT = "            work.wait()\n"
DIVIDE = "            flat /= dist.get_world_size(self.group)\n"
ONE_EACH = ("bucket_bytes=1 << 20", "bucket_bytes=1")
CHANGES = (
    change("divided by the world", "get_world_size(self.group)", "get_world_size()"),
    change("buffers not saved", BROADCAST, "for tensor in module.state_dict().values():\n"
           "            dist.broadcast(tensor, group=group, group_src=0)"),
    change("start not shared", BROADCAST, "pass"),
    change("communicates in no_sync", "        if self.syncing:", "        if not self.syncing:\n"
           "            dist.all_reduce(parameter.grad.clone(), group=self.group, async_op=True).wait()\n"
           "        if self.syncing:"),
    change("reduced twice", FLAT, "flat, copy = (torch.cat([g.flatten() for g in gradients]) for _ in range(2))\n"
           "            self.started[~number] = gradients, copy, dist.all_reduce(copy, group=self.group, async_op=True)"),
    change("not overlapped", "        if self.syncing:", "        if False:"),
    change("blocking call", REDUCE, "dist.all_reduce(flat, group=self.group)", WAIT, ""),
    change("waited too early", *ONE_EACH, START, f"{START}\n            self.started[number][2].wait()", WAIT, ""),
    change("missing wait", WAIT, ""),
    change("changed under way", WAIT + DIVIDE, DIVIDE + WAIT),
    change("buffers forgotten", BROADCAST, "for p in module.parameters():\n"
           "            dist.broadcast(p.data, group=group, group_src=0)"),
    change("frozen forgotten", BROADCAST, "for p in (*filter(lambda p: p.requires_grad, module.parameters()), "
           "*module.buffers()):\n            dist.broadcast(p.data, group=group, group_src=0)"),
    change("inner no_sync", "            self.syncing = before", "            self.syncing = True"),
    change("broadcast again", "        return self.module(*args", "        for b in self.module.buffers():\n"
           "            dist.broadcast(b, group=self.group, group_src=0)\n        return self.module(*args"),
    change("arguments lost", "return self.module(*args, **kwargs)", "return self.module(*args)"),
    change("zeros for none", " if p.grad is not None]", "]", "gradients = [p.grad for", "gradients = [self.zeros(p) for",
           "    def forward", "    def zeros(self, p):\n        p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n"
           "        return p.grad\n\n    def forward"),
    change("unreduced divided", " if p.grad is not None]", " if p not in self.missing[number]]",
           DIVIDE, "", "        self._reset()\n        ### END", "        self._reset()\n"
           "        for p in self.module.parameters():\n            if p.grad is not None:\n"
           "                p.grad /= dist.get_world_size(self.group)\n        ### END"),
    change("some left out", "if p.requires_grad]", "if p.requires_grad and p.ndim > 1]"),
    change("bucket never sent", "        for number in [i for i in range(len(self.buckets)) if i not in self.started]:\n"
           "            self._start(number)  # some of its parameters took no part in this pass\n", ""),
    change("group demanded", "dist.ProcessGroup | None = None, bucket_bytes=1 << 20", "dist.ProcessGroup"),
    change("sum for mean", DIVIDE, ""),
    change("divided twice", REDUCE, "dist.all_reduce(flat, dist.ReduceOp.AVG, group=self.group, async_op=True)"),
    change("gradients wrong", REDUCE, "dist.all_reduce(flat, dist.ReduceOp.MAX, group=self.group, async_op=True)"),
    change("own gradients", "            self.syncing = before\n", "            pass\n",
           "            self._start(number)  # some", "            self.syncing and self._start(number)  # some"),
    change("own gradients", "gradient.copy_(piece.view_as(gradient))", "pass"),
    change("earlier passes lost", "        if self.syncing:", "        if not self.syncing:\n"
           "            parameter.grad = None\n        else:"),
    change("divided by passes", RESET, f"{RESET}\n        self.passes = {{}}",
           "        if self.syncing:", "        part = 1 / len(self.buckets[number])\n"
           "        self.passes[number] = self.passes.get(number, 0) + part\n        if self.syncing:",
           "for gradients, flat, work in self.started.values()",
           "for number, (gradients, flat, work) in self.started.items()",
           "flat /= dist", "flat /= round(self.passes[number]) * dist"),
    change("earlier passes not reduced",  # the last rows' are reduced, what was accumulated before stays each rank's own
           RESET, f"{RESET}\n        self.before = {{}}",
           "            self.syncing = before", "            self.syncing = before\n"
           "            self.before = {p.grad: p.grad.clone() for p in self.module.parameters() if p.grad is not None}",
           FLAT, "flat = torch.cat([(g - self.before.get(g, 0)).flatten() for g in gradients])",
           "piece.view_as(gradient)", "piece.view_as(gradient) + self.before.get(gradient, 0)"),
    change("promoted", "for dtype in {p.dtype: None for p in trained}:", "for _ in range(1):",
           "[p for p in trained if p.dtype == dtype]", "trained"),
    change("later steps wrong", RESET, "self.missing = [set(bucket) for bucket in self.buckets]",
           "self.module, self.group, self.syncing = module, group, True",
           "self.module, self.group, self.syncing, self.started = module, group, True, {}"),
    change("frozen hooked", " if p.requires_grad", ""),
    change("no gradient", " if p.grad is not None", ""),
    change("group ignored", REDUCE, "dist.all_reduce(flat, async_op=True)"),
    change("library call", START, "rows = [flat.clone() for _ in range(dist.get_world_size(self.group))]\n"
           f"            {GATHER}",
           "flat /= ", "flat = sum(flat) / "),
)

EQUIVALENT = {
    "def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None, bucket_bytes=1 << 20): | 1 → 0":
        "A bucket's size is free.",
    "def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None, bucket_bytes=1 << 20): | 1 → 2":
        "A bucket's size is free.",
    "def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None, bucket_bytes=1 << 20): | 20 → 19":
        "A bucket's size is free.",
    "def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None, bucket_bytes=1 << 20): | 20 → 21":
        "A bucket's size is free.",
    "self.buckets += [[chosen[i] for i in bucket] for bucket in indices] | i → i - 1":
        "Every parameter is still in one bucket, and which one is free.",
}
