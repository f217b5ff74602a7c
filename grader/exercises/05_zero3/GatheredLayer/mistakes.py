"""Wrong ways to gather and to free a layer."""

from grader.exercises.references import change

SENT = "self.shard_C.to(self.flat_Z.dtype)"
GATHER = f"dist.all_gather_single(self.flat_Z, {SENT}, group=self.group)"
SLICES = "self.show(self.own_slices(self.shard_C), self.gradients)"
CHANGES = (
    change("not freed", "self.flat_Z.untyped_storage().resize_(0)", "pass"),
    change("compute dtype ignored", ", dtype=compute_dtype", ""),
    change("precision lost", GATHER, f"{GATHER}\n        self.shard_C = {SENT}.to(self.shard_C.dtype)"),
    change("shard cast", "self.shard_C = flat_shard(parameters, group)",
           "self.shard_C = flat_shard(parameters, group).to(compute_dtype or parameters[0].dtype)"),
    change("never stepped", SLICES, "self.show([part.clone() for part in self.own_slices(self.shard_C)], self.gradients)"),
    change("never stepped", "self.flat_Z = self.shard_C.new_empty(",
           "self.sent = self.shard_C.to(compute_dtype)\n        self.flat_Z = self.shard_C.new_empty(", SENT, "self.sent"),
    change("gradients dropped", "self.gradients = [p.grad for p in self.parameters]", "pass"),
    change("gradient in the way", "zip(slices, self.shapes)], [None] * len(slices))",
           "zip(slices, self.shapes)],\n                      [torch.zeros_like(part).view(shape) for part, shape in "
           "zip(slices, self.shapes)])"),
    change("another row", "self.flat_Z.untyped_storage().resize_(self.flat_Z.nbytes)",
           "self.flat_Z = self.flat_Z.new_empty(self.flat_Z.shape)"),
    change("wrong pieces", "self.shapes, first=dist.get_rank(self.group) * len(shard_C))",
           "[torch.Size([-(-shape.numel() // self.n)]) for shape in self.shapes])"),
    change("wrong whole", "part.view(shape)", "part.view(shape).flip(0)"),
    change("not at rest", SLICES, "pass"),
    change("given back twice", "        if self.is_whole:\n", "        if True:\n", "            self.gradients = [None] * "
           "len(self.parameters)  # nobody keeps them alive any more\n", ""),
    change("too many bytes", GATHER, f"{GATHER}\n        {GATHER}"),
    change("not gathered again", GATHER, "self.again = not getattr(self, 'again', True)\n"
           "        if self.again:\n            self.flat_Z.copy_(torch.tensor(self.kept))\n        else:\n"
           f"            {GATHER}\n            self.kept = self.flat_Z.tolist()"),
    change("missing wait", GATHER, GATHER.replace("group=self.group", "group=self.group, async_op=True")),
    change("group ignored", GATHER, f"dist.all_gather_single(self.flat_Z, {SENT})"),
)

EQUIVALENT = {
    "self.flat_Z.untyped_storage().resize_(0) | 0 → 1": "What is left is one byte, and no tensor of the row's size.",
}
