"""Wrong reductions of a layer's gradients."""

from grader.exercises.references import change

REDUCE = "dist.reduce_scatter_single(sum_C, flat_Z, group=self.group"
PACKED = "flat_Z, trained = self.packed_gradients()"
CHANGES = (
    change("sum for mean", "/ self.n", ""),
    change("divided twice", "/ self.n", "/ self.n**2"),
    change("divided by the world", "/ self.n", "/ dist.get_world_size()"),
    change("gradient dtype", "sum_C.to(self.shard_C.dtype)", "sum_C"),
    change("last round only", "mean if p.grad is None else p.grad + mean", "mean"),
    change("zeros for none", "if has_gradient", "if True"),
    change("empty left out", "if has_gradient", "if has_gradient and len(mean)"),
    change("unused", "= work, sum_C, trained\n        self.free()", "= work, sum_C, trained\n            self.free()"),
    change("not freed", PACKED, f"{PACKED}\n        self.whole_gradients = flat_Z"),
    change("wrong gradients", "(sum_C, flat_Z,", "(sum_C, flat_Z.flip(0),"),
    change("reduce blocks", "self.reducing = work,", "work.wait()\n            self.reducing = work,"),
    change("not at rest", "= work, sum_C, trained\n        self.free()", "= work, sum_C, trained"),
    change("no gradient", "if self.reducing is not None", "if True"),
    change("too many bytes", PACKED, f"{PACKED}\n        flat_Z = flat_Z.double()"),
    change("base not right", "self.flat_Z.untyped_storage().resize_(self.flat_Z.nbytes)",
           "self.shard_C.zero_()\n            self.flat_Z.untyped_storage().resize_(self.flat_Z.nbytes)",
           of="PrefetchedLayer"),
    change("missing wait", " work.wait()", " pass"),
    change("library call", REDUCE, "dist.all_reduce(flat_Z, group=self.group",
           "self.reducing = work", "sum_C = flat_Z.chunk(self.n)[dist.get_rank(self.group)]\n"
                                   "            self.reducing = work"),
    change("group ignored", REDUCE, "dist.reduce_scatter_single(sum_C, flat_Z",
           "new_empty(len(self.shard_C))", "new_empty(len(flat_Z) // dist.get_world_size())"),
)
