"""Wrong ways to start a gather early."""

from grader.exercises.references import change

GATHER = "self.gathering = dist.all_gather_single(self.flat_Z, shard_C, group=self.group, async_op=True)"
ENDED = "        if self.gathering is not None:\n            self.gather()\n"
CHANGES = (
    change("gather blocks", GATHER, f"{GATHER}\n            self.gathering.wait()"),
    change("gather not ended", ENDED, ""),
    change("not freed", ENDED, "        if self.gathering is not None:\n            self.gathering.wait()\n"
                               "            self.gathering = None\n"),
    change("too many bytes", GATHER,
           f"dist.all_gather_single(self.flat_Z, shard_C, group=self.group)\n            {GATHER}"),
    change("compute dtype ignored", "shard_C = self.shard_C.to(self.flat_Z.dtype)",
           "self.flat_Z = self.flat_Z.to(self.shard_C.dtype)\n            shard_C = self.shard_C"),
    change("never stepped", "shard_C = self.shard_C.to(self.flat_Z.dtype)",
           "self.sent = getattr(self, 'sent', self.shard_C.to(self.flat_Z.dtype, copy=True))\n"
           "            shard_C = self.sent"),
    change("aside too early", GATHER, f"{GATHER}\n            for p in self.parameters:\n                p.grad = None"),
    change("no memory", "            self.flat_Z.untyped_storage().resize_(self.flat_Z.nbytes)\n", ""),
    change("missing wait", "self.gathering.wait()", "pass"),
    change("base not right", "self.shapes, first=dist.get_rank(self.group) * len(shard_C))",
           "[torch.Size([-(-shape.numel() // self.n)]) for shape in self.shapes])", of="GatheredLayer"),
    change("wrong whole", "part.view(shape)", "part.view(shape).flip(0)", of="GatheredLayer"),
    change("group ignored", "group=self.group, ", ""),
)
