"""Wrong trainers with gradients in shards."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant


class _WithoutZeroGrad:
    """A right one but for zero_grad, in parts that the mutants replace."""

    def __init__(self, module, optimizer_class, group=None, **options):
        self.group, self.n, self.r = group, dist.get_world_size(group), dist.get_rank(group)
        self.shards = {p: nn.Parameter(self.pieces(p)[self.r].clone()) for p in self.hooked(module)}
        for p in self.hooked(module):
            p.register_post_accumulate_grad_hook(self.arrived)
        self.optimizer = optimizer_class(self.trained(), **options)

    def hooked(self, module):
        return [p for p in module.parameters() if p.requires_grad]

    def trained(self):
        return list(self.shards.values()) or [nn.Parameter(torch.zeros(1))]

    def pieces(self, x):
        flat = x.detach().flatten()
        return F.pad(flat, (0, -len(flat) % self.n)).view(self.n, -1)

    def arrived(self, p):
        shard = torch.empty_like(self.shards[p])
        dist.reduce_scatter_single(shard, self.pieces(p.grad).flatten(), group=self.group)
        self.keep(p, shard / self.n)
        p.grad = None

    def keep(self, p, shard):
        mine = self.shards[p]
        mine.grad = shard if mine.grad is None else mine.grad + shard

    def step(self):
        self.optimizer.step()
        for p, shard in self.shards.items():
            if shard.grad is not None:
                self.gather(p, shard.detach())

    def gather(self, p, shard):
        whole = shard.new_empty(self.n * len(shard))
        dist.all_gather_single(whole, shard, group=self.group)
        p.data.copy_(whole[:p.numel()].view_as(p))


class _Right(_WithoutZeroGrad):
    """A right one."""

    def zero_grad(self):
        for shard in self.shards.values():
            shard.grad = None


@mutant("no zero_grad")
class HasNoZeroGrad(_WithoutZeroGrad):
    pass


@mutant("nothing trained")
class NeverGathers(_Right):
    def gather(self, p, shard):
        pass


@mutant("ranks drift apart")
class CopiesItsOwnShard(_Right):
    def gather(self, p, shard):
        whole = self.pieces(p).clone()
        whole[self.r] = shard
        p.data.copy_(whole.flatten()[:p.numel()].view_as(p))


@mutant("gradients pile up")
class NeverForgets(_Right):
    def zero_grad(self):
        pass


@mutant("full gradients")
class ReducesInTheEnd(_Right):
    def arrived(self, p):
        pass

    def step(self):
        for p in self.shards:
            if p.grad is not None:
                super().arrived(p)
        super().step()


@mutant("too many bytes")
class GathersTwice(_Right):
    def gather(self, p, shard):
        super().gather(p, shard)
        super().gather(p, shard)


@mutant("not sharded")
class StepsEverything(_Right):
    """Reduce-scatters and gathers gradients; every rank updates everything."""

    def __init__(self, module, optimizer_class, group=None, **options):
        super().__init__(module, optimizer_class, group, **options)
        self.optimizer = optimizer_class(self.hooked(module), **options)

    def step(self):
        for p, shard in self.shards.items():
            if shard.grad is not None:
                whole = shard.new_empty(self.n * len(shard))
                dist.all_gather_single(whole, shard.grad, group=self.group)
                p.grad = whole[:p.numel()].view_as(p)
        self.optimizer.step()
        for p in self.shards:
            p.grad = None


@mutant("no gradient")
class NeedsEveryGradient(_Right):
    def step(self):
        for shard in self.shards.values():
            shard.grad /= 1
        super().step()


@mutant("other dtype")
class InFloat32(_Right):
    def arrived(self, p):
        shard = torch.empty(self.shards[p].shape)
        dist.reduce_scatter_single(shard, self.pieces(p.grad).flatten(), group=self.group)
        self.keep(p, shard / self.n)
        p.grad = None


@mutant("no optimizer")
class HidesItsOptimizer(_Right):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.hidden = self.__dict__.pop("optimizer")

    def step(self):
        self.optimizer = self.hidden
        super().step()
        del self.optimizer


@mutant("sum for mean")
class Sums(_Right):
    def keep(self, p, shard):
        super().keep(p, shard * self.n)


@mutant("last pass only")
class Overwrites(_Right):
    def keep(self, p, shard):
        self.shards[p].grad = shard


@mutant("library call")
class AllReduces(_Right):
    def arrived(self, p):
        dist.all_reduce(p.grad, group=self.group)
        self.keep(p, self.pieces(p.grad)[self.r] / self.n)
        p.grad = None


@mutant("not padded")
class ForgetsToPad(_Right):
    def pieces(self, x):
        flat = x.detach().flatten()
        return flat[:len(flat) - len(flat) % self.n].view(self.n, -1)
