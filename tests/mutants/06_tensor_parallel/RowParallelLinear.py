"""Wrong row-parallel layers."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant
from utils.models.shards import own_slice

from . import right


class _Right(right.Row):
    """Its parts can be exchanged one by one."""

    def behind(self, y):
        return right.Reduce.apply(y, self.group)

    def biased(self, y, bias):
        return y if bias is None else y + bias

    def forward(self, x):
        return self.biased(self.behind(F.linear(x, self.weight)), self.bias)


@mutant("not summed")
class NoG(_Right):
    def behind(self, y):
        return y


@mutant("f for g")
class FForG(_Right):
    def behind(self, y):
        return right.Copy.apply(y, self.group)


@mutant("summed both ways")
class BothWays(_Right):
    def behind(self, y):
        return right.both_ways(y, self.group)


@mutant("bias n times")
class BiasBeforeTheSum(_Right):
    def forward(self, x):
        return self.behind(F.linear(x, self.weight, self.bias))


@mutant("bias's gradient on one rank")
class BiasOfRankZero(_Right):
    def forward(self, x):
        return self.behind(F.linear(x, self.weight, self.bias if dist.get_rank(self.group) == 0 else None))


@mutant("bias divided")
class BiasInParts(_Right):
    def forward(self, x):
        bias = None if self.bias is None else self.bias / dist.get_world_size(self.group)
        return self.behind(F.linear(x, self.weight, bias))


@mutant("bias's gradient summed")
class BiasThroughF(_Right):
    def biased(self, y, bias):
        return y if bias is None else y + right.Copy.apply(bias, self.group)


@mutant("bias missing")
class ForgetsTheBias(_Right):
    def biased(self, y, bias):
        return y


@mutant("mean")
class Averages(_Right):
    def behind(self, y):
        n = dist.get_world_size(self.group)
        return right.Reduce.apply(y.detach() / n, self.group) + (y - y.detach())


@mutant("every n-th column")
class Interleaved(_Right):
    def __init__(self, linear, group=None):
        super().__init__(linear, group)
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.weight = nn.Parameter(linear.weight.detach()[:, r::n].clone())


@mutant("first columns")
class FirstColumns(_Right):
    def __init__(self, linear, group=None):
        super().__init__(linear, group)
        self.weight = nn.Parameter(linear.weight.detach()[:, :self.weight.shape[1]].clone())


@mutant("shapes")
class CutsXAgain(_Right):
    def forward(self, x):
        return super().forward(x.chunk(dist.get_world_size(self.group), -1)[0])


@mutant("no error")
class TakesAnySize(_Right):
    def __init__(self, linear, group=None):
        nn.Module.__init__(self)
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.group, self.bias = group, None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        self.weight = nn.Parameter(linear.weight.detach().tensor_split(n, 1)[r].clone())


@mutant("whole weight kept")
class KeepsAView(_Right):
    def __init__(self, linear, group=None):
        super().__init__(linear, group)
        self.weight = nn.Parameter(linear.weight.detach()[:, own_slice(linear.in_features, group)])


@mutant("parameters not divided")
class KeepsTheLayer(_Right):
    def __init__(self, linear, group=None):
        super().__init__(linear, group)
        self.linear = linear


@mutant("library call")
class Gathers(_Right):
    def behind(self, y):
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, y.detach(), group=self.group)
        return y + (torch.stack(parts).sum(0) - y.detach())


@mutant("forward calls")
class SumsTwice(_Right):
    def behind(self, y):
        return right.Reduce.apply(y / 2, self.group) + right.Reduce.apply(y / 2, self.group)


@mutant("backward calls")
class AlsoBackward(_Right):
    def forward(self, x):
        return super().forward(right.Copy.apply(x, self.group) / 2 + x - right.Copy.apply(x, self.group) / 2)


@mutant("group ignored")
class WholeWorld(_Right):
    def behind(self, y):
        return right.Reduce.apply(y, None)
