"""Wrong sharded optimizers."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


class _WithoutState(torch.optim.Optimizer):
    """A right one but for what is saved, in parts that the mutants replace."""

    def __init__(self, params, optimizer_class, group=None, **options):
        super().__init__(params, options)
        self.group, self.n, self.r = group, dist.get_world_size(group), dist.get_rank(group)
        self.all = [p for one in self.param_groups for p in one["params"]]
        self.owner = self.owners()
        self.wrapped = optimizer_class(self.mine(), **options)

    def owners(self):
        held, owner = [0] * self.n, {}
        for p in sorted(self.all, key=lambda p: -p.numel()):
            owner[p] = held.index(min(held))
            held[owner[p]] += p.numel()
        return {p: owner[p] for p in self.all}

    def mine(self):
        return [{**one, "params": [p for p in one["params"] if self.owner[p] == self.r]} for one in self.param_groups]

    def active(self):
        return [p for p in self.all if p.grad is not None]

    def step(self, closure=None):
        loss = closure() if closure else None
        self.reduce()
        self.hear()
        self.wrapped.step()
        self.send()
        return loss

    def reduce(self):
        for p in self.active():
            dist.reduce(p.grad, group=self.group, group_dst=self.owner[p])
            p.grad /= self.n

    def hear(self):
        for whole, mine in zip(self.param_groups, self.wrapped.param_groups, strict=False):
            mine.update({name: value for name, value in whole.items() if name != "params"})

    def send(self):
        for p in self.active():
            dist.broadcast(p.data, group=self.group, group_src=self.owner[p])


class _Right(_WithoutState):
    def state_dict(self):
        self.hear()
        return self.wrapped.state_dict()

    def load_state_dict(self, state):
        self.wrapped.load_state_dict(state)
        for whole, mine in zip(self.param_groups, self.wrapped.param_groups, strict=False):
            whole.update({name: value for name, value in mine.items() if name != "params"})


@mutant("sum for mean")
class Sums(_Right):
    def reduce(self):
        for p in self.active():
            dist.reduce(p.grad, group=self.group, group_dst=self.owner[p])


@mutant("gradients not reduced")
class TrustsItsOwn(_Right):
    def reduce(self):
        pass


@mutant("parameters not sent")
class NeverSends(_Right):
    def send(self):
        pass


@mutant("not sharded")
class StepsEverything(_Right):
    """All-reduces, then every rank steps everything."""

    def mine(self):
        return self.param_groups

    def reduce(self):
        for p in self.active():
            dist.all_reduce(p.grad, group=self.group)
            p.grad /= self.n

    def send(self):
        pass


@mutant("library call")
class AllReduces(_Right):
    def reduce(self):
        for p in self.active():
            dist.all_reduce(p.grad, group=self.group)
            p.grad /= self.n


@mutant("state not divided")
class DealsInTurn(_Right):
    def owners(self):
        return {p: number % self.n for number, p in enumerate(self.all)}


@mutant("too many bytes")
class SendsTwice(_Right):
    def send(self):
        super().send()
        super().send()


@mutant("groups ignored")
class ForgetsGroups(_Right):
    def mine(self):
        return [{"params": [p for p in self.all if self.owner[p] == self.r]}]


@mutant("state lost")
class SavesTheWrongState(_WithoutState):
    """Inherits state_dict and load_state_dict, which know nothing of the wrapped optimizer."""


@mutant("rate not heard")
class NeverHears(_Right):
    def hear(self):
        pass


@mutant("closure ignored")
class ForgetsTheLoss(_Right):
    def step(self, closure=None):
        super().step(closure)


@mutant("gradients left")
class ForgetsItsOwnOnly(_Right):
    def zero_grad(self):
        self.wrapped.zero_grad()


@mutant("no gradient")
class TakesAll(_Right):
    def active(self):
        return self.all


@mutant("group ignored")
class InTheWorld(_Right):
    def send(self):
        for p in self.active():
            dist.broadcast(p.data, src=self.owner[p])


@mutant("super forgotten")
class ForgetsSuper(_Right):
    def __init__(self, params, optimizer_class, group=None, **options):
        params = list(params)
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.group, self.n, self.r = group, dist.get_world_size(group), dist.get_rank(group)
        self.all = [p for one in groups for p in one["params"]]
        self.owner = self.owners()
        self.wrapped = optimizer_class([p for p in self.all if self.owner[p] == self.r], **options)


class _Plain:
    """Not a torch optimizer."""


@mutant("not an optimizer")
class OfItsOwn(_Plain):
    def __init__(self, params, optimizer_class, group=None, **options):
        self.wrapped = _Right(params, optimizer_class, group, **options)

    def __getattr__(self, name):
        return getattr(self.wrapped, name)
