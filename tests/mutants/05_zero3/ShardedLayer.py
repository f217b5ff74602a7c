"""Wrong layers in shards."""

import torch
import torch.distributed as dist

from tests.mutants import mutant

from . import right


@mutant("sum for mean")
class Sums(right.Layer):
    def scaled(self, total):
        return total


@mutant("divided twice")
class DividesTwice(right.Layer):
    def scaled(self, total):
        return total / self.n**2


@mutant("last round only")
class Overwrites(right.Layer):
    def add(self, p, piece):
        p.grad = piece


@mutant("zeros for none")
class MakesZeros(right.Layer):
    def finish(self):
        super().finish()
        for p in self.parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)


@mutant("not freed")
class NeverFrees(right.Layer):
    def empty(self):
        pass


@mutant("gather blocks")
class BlocksAtOnce(right.Layer):
    def start_gather(self):
        if not self.whole and self.work is None:
            super().start_gather()
            self.work.wait()


@mutant("too many bytes")
class GathersTwice(right.Layer):
    def send_gather(self):
        super().send_gather().wait()
        return super().send_gather()


@mutant("compute dtype ignored")
class KeepsItsDtype(right.Layer):
    def __init__(self, parameters, group=None, compute_dtype=None):
        super().__init__(parameters, group)


@mutant("precision lost")
class ShardInComputeDtype(right.Layer):
    def put_in_place(self):
        super().put_in_place()
        self.shard = self.shard.to(self.dtype).to(self.shard.dtype)


@mutant("gradient in the way")
class LeavesTheGradient(right.Layer):
    def put_in_place(self):
        super().put_in_place()
        for p, gradient in zip(self.parameters, self.kept, strict=True):
            if gradient is not None:
                p.grad = torch.zeros_like(p)


@mutant("wrong pieces")
class PiecesByParameter(right.Layer):
    def own(self, shard):
        lengths = [-(-shape.numel() // self.n) for shape in self.shapes]
        return [shard[sum(lengths[:k]):sum(lengths[:k + 1])] for k in range(len(lengths))]


@mutant("wrong whole")
class AnotherOrder(right.Layer):
    def put_in_place(self):
        super().put_in_place()
        self.parameters[0].data = self.parameters[0].data.flip(0)


@mutant("wrong gradients")
class GradientsInAnotherOrder(right.Layer):
    def send_reduce(self, flat):
        return super().send_reduce(flat.flip(0))


@mutant("missing wait")
class DoesNotWait(right.Layer):
    def finish(self):
        if self.reducing is not None:
            _, mean, has = self.reducing
            self.reducing = None
            for p, piece, one in zip(self.parameters, self.own(mean.to(self.shard.dtype) / self.n), has, strict=True):
                if one:
                    self.add(p, piece)


@mutant("library call")
class AllReduces(right.Layer):
    def send_reduce(self, flat):
        dist.all_reduce(flat, group=self.group)
        return dist.barrier(group=self.group, async_op=True), flat.chunk(self.n)[self.r]


@mutant("group ignored")
class InTheWorld(right.Layer):
    def send_reduce(self, flat):
        mean = flat.new_empty(len(flat) // dist.get_world_size())
        return dist.reduce_scatter_single(mean, flat, async_op=True), mean
