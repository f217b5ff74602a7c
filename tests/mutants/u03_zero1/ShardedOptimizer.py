"""Wrong sharded optimizers."""

import torch.distributed as dist

from tests.mutants import mutant


class _Base:
    """A right one but for state_dict and param_groups, in parts that the mutants replace."""

    def __init__(self, params, optimizer_class, group=None, **options):
        self.group, self.n, self.r = group, dist.get_world_size(group), dist.get_rank(group)
        params = list(params)
        groups = params if params and isinstance(params[0], dict) else [{"params": params}]
        self.params = [p for one in groups for p in one["params"]]
        self.owner = self.owners()
        mine = [{**one, "params": [p for p in one["params"] if self.is_mine(p)]} for one in self.grouped(groups)]
        self.optimizer = optimizer_class(mine, **options)

    def owners(self):
        held, owner = [0] * self.n, {}
        for p in sorted(self.params, key=lambda p: -p.numel()):
            owner[p] = held.index(min(held))
            held[owner[p]] += p.numel()
        return {p: owner[p] for p in self.params}

    def is_mine(self, p):
        return self.owner[p] == self.r

    def grouped(self, groups):
        return groups

    def active(self):
        return [p for p in self.params if p.grad is not None]

    def step(self):
        self.reduce()
        self.optimizer.step()
        self.send()

    def reduce(self):
        for p in self.active():
            dist.reduce(p.grad, group=self.group, group_dst=self.owner[p])
            p.grad /= self.n

    def send(self):
        for p in self.active():
            dist.broadcast(p.data, group=self.group, group_src=self.owner[p])

    def zero_grad(self):
        for p in self.params:
            p.grad = None


class _WithState(_Base):
    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)


class _Right(_WithState):
    @property
    def param_groups(self):
        return self.optimizer.param_groups


@mutant("sum for mean")
class Sums(_Right):
    def reduce(self):
        for p in self.active():
            dist.reduce(p.grad, group=self.group, group_dst=self.owner[p])


@mutant("parameters not sent")
class NeverSends(_Right):
    def send(self):
        pass


@mutant("state not divided")
class KeepsAllState(_Right):
    def is_mine(self, p):
        return True

    def reduce(self):
        for p in self.active():
            dist.reduce(p.grad, group=self.group, group_dst=self.owner[p])
            p.grad /= self.n
        for p in self.active():
            if self.owner[p] != self.r:
                p.grad.zero_()


@mutant("library call")
class AllReduces(_Right):
    def reduce(self):
        for p in self.active():
            dist.all_reduce(p.grad, group=self.group)
            p.grad /= self.n


@mutant("too many bytes")
class SendsTwice(_Right):
    def send(self):
        super().send()
        super().send()


@mutant("groups ignored")
class ForgetsGroups(_Right):
    def grouped(self, groups):
        return [{"params": self.params}]


@mutant("no param_groups")
class ShowsNoGroups(_WithState):
    pass


@mutant("no state_dict")
class HasNoState(_Base):
    @property
    def param_groups(self):
        return self.optimizer.param_groups


@mutant("rate not heard")
class ShowsACopy(_Right):
    @property
    def param_groups(self):
        return [dict(one) for one in self.optimizer.param_groups]


@mutant("no gradient")
class TakesAll(_Right):
    def active(self):
        return self.params


@mutant("group ignored")
class InTheWorld(_Right):
    def send(self):
        for p in self.active():
            dist.broadcast(p.data, src=self.owner[p])
