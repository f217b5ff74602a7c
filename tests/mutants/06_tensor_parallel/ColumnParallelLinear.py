"""Wrong column-parallel layers."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant
from utils.models.shards import own_part, own_slice

from . import right


class _Right(right.Column):
    """Its parts can be exchanged one by one."""

    def before(self, x):
        return right.Copy.apply(x, self.group) if self.copy else x

    def forward(self, x):
        return F.linear(self.before(x), self.weight, self.bias)


@mutant("f missing")
class NoF(_Right):
    def before(self, x):
        return x


@mutant("copy ignored")
class AlwaysF(_Right):
    def before(self, x):
        return right.Copy.apply(x, self.group)


@mutant("f behind")
class FBehind(_Right):
    def forward(self, x):
        y = F.linear(x, self.weight, self.bias)
        return right.Copy.apply(y, self.group) if self.copy else y


@mutant("x summed")
class SumsBothWays(_Right):
    def before(self, x):
        return right.both_ways(x, self.group) if self.copy else x


@mutant("every n-th row")
class Interleaved(_Right):
    def __init__(self, linear, group=None, copy=True):
        super().__init__(linear, group, copy)
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.weight = nn.Parameter(linear.weight.detach()[r::n].clone())
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach()[r::n].clone())


@mutant("first rows")
class FirstRows(_Right):
    def __init__(self, linear, group=None, copy=True):
        super().__init__(linear, group, copy)
        rows = slice(0, len(self.weight))
        self.weight = nn.Parameter(linear.weight.detach()[rows].clone())
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach()[rows].clone())


@mutant("bias missing")
class ForgetsTheBias(_Right):
    def forward(self, x):
        return F.linear(self.before(x), self.weight)


@mutant("shapes")
class CutsColumns(_Right):
    def __init__(self, linear, group=None, copy=True):
        super().__init__(linear, group, copy)
        self.weight = nn.Parameter(linear.weight.detach().chunk(dist.get_world_size(group), 1)[dist.get_rank(group)].clone())


@mutant("no error")
class TakesAnySize(_Right):
    def __init__(self, linear, group=None, copy=True):
        nn.Module.__init__(self)
        n, r = dist.get_world_size(group), dist.get_rank(group)
        self.group, self.copy = group, copy
        self.weight = nn.Parameter(linear.weight.detach().tensor_split(n)[r].clone())
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().tensor_split(n)[r].clone())


@mutant("whole weight kept")
class KeepsAView(_Right):
    def __init__(self, linear, group=None, copy=True):
        super().__init__(linear, group, copy)
        self.weight = nn.Parameter(linear.weight.detach()[own_slice(len(linear.weight), group)])


@mutant("parameters not divided")
class KeepsTheLayer(_Right):
    def __init__(self, linear, group=None, copy=True):
        super().__init__(linear, group, copy)
        self.linear = linear


@mutant("no gradient")
class NotAParameter(_Right):
    def __init__(self, linear, group=None, copy=True):
        nn.Module.__init__(self)
        self.group, self.copy = group, copy
        self.weight = own_part(linear.weight, 0, group)
        self.bias = None if linear.bias is None else own_part(linear.bias, 0, group)


@mutant("other dtype")
class MakesNewNumbers(_Right):
    def __init__(self, linear, group=None, copy=True):
        super().__init__(linear, group, copy)
        self.weight = nn.Parameter(torch.empty(self.weight.shape).copy_(self.weight.detach()))


@mutant("library call")
class Gathers(_Right):
    def forward(self, x):
        y = super().forward(x)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, y.detach(), group=self.group)
        return y


@mutant("backward calls")
class TwoFs(_Right):
    def before(self, x):
        return right.Copy.apply(x / 2, self.group) + right.Copy.apply(x / 2, self.group) if self.copy else x


@mutant("forward calls")
class AlsoForward(_Right):
    def before(self, x):
        dist.all_reduce(x.detach().clone(), group=self.group)
        return super().before(x)


@mutant("group ignored")
class WholeWorld(_Right):
    def before(self, x):
        return right.Copy.apply(x, None) if self.copy else x
