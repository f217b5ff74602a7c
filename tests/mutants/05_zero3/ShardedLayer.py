"""Wrong layers in shards."""

from tests.mutants import change

GATHER, REDUCE = "shard_C, group=self.group, async_op=True)", "dist.reduce_scatter_single(mean_C, row_P, group=self.group"
CAST = "shard_C = self.shard_C.to(self.row_P.dtype)"
ASIDE = "self.gradients = [p.grad for p in self.parameters]\n            "
CHANGES = (
    change("sum for mean", "/ self.n", ""),
    change("divided twice", "/ self.n", "/ self.n**2"),
    change("divided by the world", "/ self.n", "/ dist.get_world_size()"),
    change("gradient dtype", "mean_C.to(self.shard_C.dtype)", "mean_C"),
    change("last round only", "mean if p.grad is None else p.grad + mean", "mean"),
    change("zeros for none", "if has_gradient", "if True"),
    change("empty left out", "if has_gradient", "if has_gradient and len(mean)"),
    change("unused", "= work, mean_C, trained\n        self.free()", "= work, mean_C, trained\n            self.free()"),
    change("not freed", "self.row_P.untyped_storage().resize_(0)", "pass"),
    change("gather blocks", GATHER, f"{GATHER}\n            self.gathering.wait()"),
    change("too many bytes", CAST, f"{CAST}\n            dist.all_gather_single(self.row_P, shard_C, group=self.group)"),
    change("compute dtype ignored", ", dtype=compute_dtype", ""),
    change("precision lost", CAST, f"{CAST}\n            self.shard_C = shard_C.to(self.shard_C.dtype)"),
    change("shard cast", "self.shard_C = flat_shard(parameters, group)",
           "self.shard_C = flat_shard(parameters, group).to(compute_dtype or parameters[0].dtype)"),
    change("gradient in the way", "p.grad, p.data = None, piece.view(shape)",
           "gradient, p.grad, p.data = p.grad, None, piece.view(shape)\n"
           "                p.grad = None if gradient is None else torch.zeros_like(p)"),
    change("wrong pieces", "self.shapes, first=dist.get_rank(self.group) * len(shard_C))",
           "[torch.Size([-(-shape.numel() // self.n)]) for shape in self.shapes])"),
    change("wrong whole", "piece.view(shape)", "piece.view(shape).flip(0)"),
    change("wrong gradients", "(mean_C, row_P,", "(mean_C, row_P.flip(0),"),
    change("reduce blocks", "self.reducing = work,", "work.wait()\n            self.reducing = work,"),
    change("never stepped", "p.grad, p.data = None, piece\n", "p.grad, p.data = None, piece.clone()\n"),
    change("another row", "self.row_P.untyped_storage().resize_(self.row_P.nbytes)",
           "self.row_P = self.row_P.new_empty(self.row_P.shape)"),
    change("not at rest", "= work, mean_C, trained\n        self.free()", "= work, mean_C, trained"),
    change("gather not ended", "        if self.gathering is not None:\n            self.gather()\n        if self.is_whole",
           "        if self.is_whole"),
    change("aside too early", f"{ASIDE}for p, piece, shape", "for p, piece, shape", CAST, f"{CAST}\n            {ASIDE}"
           "for p in self.parameters:\n                p.grad = None"),
    change("given back twice", "        if self.is_whole:\n", "        if True:\n",
           "            self.gradients = [None] * len(self.parameters)\n            self.row_P", "            self.row_P"),
    change("missing wait", " work.wait()", " pass"),
    change("library call", REDUCE, "dist.all_reduce(row_P, group=self.group",
           "self.reducing = work", "mean_C = row_P.chunk(self.n)[dist.get_rank(self.group)]\n"
                                   "            self.reducing = work"),
    change("group ignored", REDUCE, "dist.reduce_scatter_single(mean_C, row_P",
           "new_empty(len(self.shard_C))", "new_empty(len(row_P) // dist.get_world_size())"),
)

EQUIVALENT = {
    "self.gradients = [None] * len(self.parameters) | self.gradients = [None] * len(self.parameters) → pass":
        "gather() notes them anew; until then pieces alone are kept.",
    "self.row_P.untyped_storage().resize_(0) | 0 → 1": "What is left is one byte, and no tensor of the row's size.",
}
