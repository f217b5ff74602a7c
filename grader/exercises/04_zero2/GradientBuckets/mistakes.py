"""Wrong ways to reduce gradients in buckets during the backward pass."""

from grader.exercises.references import change

REDUCE = "dist.reduce_scatter_single(mean_C, flat, group=self.group, async_op=True)"
FULL, ROOM = ">= self.bucket_bytes", "if len(self.sent) == self.in_flight:"
SENT = "self.waiting = []\n\n    def _collect"
POP, FREE = "parameters, mean_C, _, work = self.sent.pop(0)", "p.grad = None"
LAST = "        if self.waiting:\n            self._send()\n"
ADD = "self.shards[p] = self.shards[p] + shard if p in self.shards else shard"

CHANGES = (
    change("left too early", "p.grad.nbytes for", "-(-p.numel() // self.n) * self.n * p.itemsize for"),
    change("not overlapped", "hook(self._arrived)", "hook(came.append)", "self.bucket_bytes, self.in_flight =",
           "self.came = came = []\n        self.bucket_bytes, self.in_flight =",
           LAST, f"        for p in self.came:\n            self._arrived(p)\n        self.came.clear()\n{LAST}"),
    change("blocking call", REDUCE, REDUCE.replace(", async_op=True", ""), "work.wait()", "pass"),
    change("too many in flight", ROOM, "if False:"),
    change("waited too early", SENT, f"self._collect()\n        {SENT}"),
    change("bucket left behind", LAST, "        self.waiting = []\n"),
    change("full gradients", FREE, "p.kept = p.grad; p.grad = None", "work.wait()",
           "work.wait()\n        for p in parameters:\n            p.kept = None"),
    change("rows kept", POP, "parameters, mean_C, flat, work = self.sent.pop(0)\n        self.rows.append(flat)",
           "self.shards, self.waiting", "self.rows = []\n        self.shards, self.waiting",
           "            self._collect()\n        ### END",
           "            self._collect()\n        self.rows.clear()\n        ### END"),
    change("not bucketed", FULL, ">= 0"),
    change("sum for mean", "mean_C /= self.n", "pass"),
    change("divided by the world", "mean_C /= self.n", "mean_C /= dist.get_world_size()"),
    change("divided twice", "mean_C /= self.n", "mean_C /= self.n**2"),
    change("last pass only", ADD, "self.shards[p] = shard"),
    change("first pass twice", FREE, "pass"),
    change("laid end to end", "self.waiting], self.n)", "self.waiting], self.n).view(self.n, -1).flip(0).flatten()"),
    change("laid end to end", "pack([p.grad for p in self.waiting], self.n)",
           "torch.cat([F.pad(p.grad.flatten(), (0, -p.numel() % self.n)) for p in self.waiting])"),
    change("missing wait", "work.wait()", "pass"),
    change("changed under way", "        work.wait()\n        mean_C /= self.n\n",
           "        mean_C /= self.n\n        work.wait()\n"),
    change("hooked twice", "for parameter in model.parameters():",
           "for _, parameter in model.named_parameters(remove_duplicate=False):"),
)
