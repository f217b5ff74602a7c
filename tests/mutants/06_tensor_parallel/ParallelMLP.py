"""Wrong MLPs in pieces."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tests.mutants import mutant
from utils.models.shards import own_slice

from . import right


class _Right(nn.Module):
    """Its parts can be exchanged one by one."""

    def __init__(self, up, down, group=None, gate=None):
        super().__init__()
        self.group = group
        self.up, self.down = right.Column(up, group, copy=False), right.Row(down, group)
        self.gate = None if gate is None else right.Column(gate, group, copy=False)

    def before(self, x):
        return right.Copy.apply(x, self.group)

    def activation(self, up, gate):
        return F.gelu(up) if gate is None else F.silu(gate) * up

    def forward(self, x):
        x = self.before(x)
        return self.down(self.activation(self.up(x), None if self.gate is None else self.gate(x)))


@mutant("f missing")
class NoF(_Right):
    def before(self, x):
        return x


@mutant("backward calls")
class TwoFs(_Right):
    def __init__(self, up, down, group=None, gate=None):
        super().__init__(up, down, group, gate)
        self.up.copy = True
        if gate is not None:
            self.gate.copy = True

    def before(self, x):
        return x


@mutant("f on one of two")
class FForUpOnly(_Right):
    def __init__(self, up, down, group=None, gate=None):
        super().__init__(up, down, group, gate)
        self.up.copy = True

    def before(self, x):
        return x


@mutant("dx times n")
class FTwice(_Right):
    def before(self, x):
        return super().before(super().before(x))


@mutant("bias n times")
class BiasBeforeTheSum(_Right):
    def forward(self, x):
        x, down = self.before(x), self.down
        hidden = self.activation(self.up(x), None if self.gate is None else self.gate(x))
        return right.Reduce.apply(F.linear(hidden, down.weight, down.bias), self.group)


@mutant("no gate")
class IgnoresTheGate(_Right):
    def activation(self, up, gate):
        return F.gelu(up)


@mutant("gate and up exchanged")
class Exchanged(_Right):
    def activation(self, up, gate):
        return F.gelu(up) if gate is None else F.silu(up) * gate


@mutant("other activation")
class Sigmoid(_Right):
    def activation(self, up, gate):
        return F.gelu(up) if gate is None else F.sigmoid(gate) * up


@mutant("GELU by tanh")
class Approximate(_Right):
    def activation(self, up, gate):
        return F.gelu(up, approximate="tanh") if gate is None else F.silu(gate) * up


@mutant("no activation")
class Linear(_Right):
    def activation(self, up, gate):
        return up if gate is None else gate * up


@mutant("forward calls")
class SumsTwice(_Right):
    def forward(self, x):
        y = super().forward(x)
        dist.all_reduce(y.detach().clone(), group=self.group)
        return y


@mutant("library call")
class GathersBetween(_Right):
    def activation(self, up, gate):
        parts = [torch.empty_like(up) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, up.detach(), group=self.group)
        return super().activation(up, gate)


@mutant("whole weight kept")
class KeepsTheLayers(_Right):
    def __init__(self, up, down, group=None, gate=None):
        super().__init__(up, down, group, gate)
        self.layers = [up, down]


@mutant("parameters not divided")
class KeepsTheModule(_Right):
    def __init__(self, up, down, group=None, gate=None):
        super().__init__(up, down, group, gate)
        self.whole = down


@mutant("no error")
class TakesAnySize(_Right):
    def __init__(self, up, down, group=None, gate=None):
        n = dist.get_world_size(group)
        if len(up.weight) % n:
            up = nn.Linear(up.in_features, len(up.weight) // n * n, dtype=up.weight.dtype)
            down = nn.Linear(len(up.weight), down.out_features, dtype=up.weight.dtype)
        super().__init__(up, down, group, gate)


@mutant("shapes")
class TwoRows(_Right):
    def __init__(self, up, down, group=None, gate=None):
        super().__init__(up, down, group, gate)
        columns = own_slice(down.in_features, group)
        self.down.weight = nn.Parameter(down.weight.detach().T[columns].clone())


@mutant("group ignored")
class WholeWorld(_Right):
    def before(self, x):
        return right.Copy.apply(x, None)
