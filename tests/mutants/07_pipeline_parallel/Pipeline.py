"""Wrong executors."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _standing(schedule, n_stages):
    """A step that can never start, if there is one."""
    done, rows, moved = set(), [list(row) for row in schedule], True
    while moved:
        moved = False
        for row in rows:
            while row:
                kind, micro, stage = row[0]
                needs = {"F": [("F", micro, stage - 1)] * (stage > 0), "W": [("I", micro, stage)]}.get(
                    kind, [("F", micro, stage)] + [(kind, micro, stage + 1)] * (stage < n_stages - 1))
                if not done.issuperset(needs):
                    break
                done.add(tuple(row.pop(0)))
                moved = True
    return next((row[0] for row in rows if row), None)


class _Right:
    """A right one: backward in two pieces by autograd.grad twice, for the last layer's sake of brevity."""

    def __init__(self, stages, schedule, shape, loss_fn, like, group=None):
        self.refuse(schedule, shape)
        self.stages, self.shape, self.loss_fn, self.like, self.group = stages, shape, loss_fn, like, group
        self.n, self.rank, self.last = shape.n_ranks, dist.get_rank(group), shape.n_stages - 1
        self.steps, self.kept = self.order(schedule[self.rank]), []

    def refuse(self, schedule, shape):
        step = _standing(schedule, shape.n_stages)
        if step:
            raise ValueError(f"{step} can never start")

    def order(self, steps):
        return steps

    def tag(self, kind, micro, stage):
        return (micro * self.shape.n_stages + stage) * 2 + (kind == "F")

    def send(self, tensor, kind, micro, stage):
        tag, peer = self.tag(kind, micro, stage), stage % self.n
        if peer == self.rank:
            self.arrived[tag] = tensor
        else:
            self.works.append((dist.isend(tensor, group=self.group, group_dst=peer, tag=tag), tensor))

    def receive(self, kind, micro, stage, sender):
        tag, peer = self.tag(kind, micro, stage), sender % self.n
        if peer == self.rank:
            return self.arrived.pop(tag)
        tensor = torch.empty_like(self.like)
        dist.recv(tensor, group=self.group, group_src=peer, tag=tag)
        return tensor

    def root(self, loss):
        return loss / self.shape.n_micro

    def forward(self, micro, stage):
        x = self.xs[micro] if stage == 0 else self.input(self.receive("F", micro, stage, stage - 1))
        y = self.stages[stage](x)
        if stage == self.last:
            loss = self.loss_fn(y, self.ys[micro])
            self.losses[micro], y = loss.detach(), self.root(loss)
        else:
            self.send(y.detach(), "F", micro, stage + 1)
        self.alive[micro, stage] = x, y

    def input(self, x):
        return x.requires_grad_()

    def backward(self, kind, micro, stage):
        x, y = self.alive.pop((micro, stage))
        dy = None if stage == self.last else self.receive("B", micro, stage, stage + 1)
        if kind == "B":
            self.whole(x, y, dy, stage)
            dx = x.grad
        else:
            dx = self.half(x, y, dy)
            self.later[micro, stage] = y, dy
        if stage > 0:
            self.send(dx, "B", micro, stage - 1)

    def whole(self, x, y, dy, stage):
        y.backward(dy)

    def half(self, x, y, dy):
        return torch.autograd.grad(y, x, dy, retain_graph=True)[0] if x.requires_grad else None

    def weights(self, micro, stage):
        y, dy = self.later.pop((micro, stage))
        parameters = list(self.stages[stage].parameters())
        for p, gradient in zip(parameters, torch.autograd.grad(y, parameters, dy, retain_graph=True), strict=True):
            p.grad = gradient if p.grad is None else p.grad + gradient

    def step(self, xs, ys):
        self.xs, self.ys, self.losses, self.alive, self.later, self.arrived, self.works = xs, ys, {}, {}, {}, {}, []
        for kind, micro, stage in self.steps:
            if kind == "F":
                self.forward(micro, stage)
            elif kind == "W":
                self.weights(micro, stage)
            else:
                self.backward(kind, micro, stage)
        for work, _ in self.works:
            work.wait()
        self.works.clear()
        return self.returned()

    def returned(self):
        return [self.losses[micro] for micro in sorted(self.losses)]


@mutant("runs what cannot run")
class TrustsTheSchedule(_Right):
    def refuse(self, schedule, shape):
        pass


@mutant("messages mixed up")
class NoTags(_Right):
    def send(self, tensor, kind, micro, stage):
        if stage % self.n == self.rank:
            self.arrived[self.tag(kind, micro, stage)] = tensor
        else:
            self.works.append((dist.isend(tensor, group=self.group, group_dst=stage % self.n), tensor))

    def receive(self, kind, micro, stage, sender):
        if sender % self.n == self.rank:
            return self.arrived.pop(self.tag(kind, micro, stage))
        tensor = torch.empty_like(self.like)
        dist.recv(tensor, group=self.group, group_src=sender % self.n)
        return tensor


@mutant("deadlock")
class WaitsForEachSend(_Right):
    def send(self, tensor, kind, micro, stage):
        if stage % self.n == self.rank:
            self.arrived[self.tag(kind, micro, stage)] = tensor
        else:
            dist.send(tensor, group=self.group, group_dst=stage % self.n, tag=self.tag(kind, micro, stage))


@mutant("wait forgotten")
class DropsTheWork(_Right):
    def send(self, tensor, kind, micro, stage):
        super().send(tensor, kind, micro, stage)
        self.works.clear()


@mutant("message to itself")
class SendsToItself(_Right):
    def send(self, tensor, kind, micro, stage):
        work = dist.isend(tensor, group=self.group, group_dst=stage % self.n, tag=self.tag(kind, micro, stage))
        self.works.append((work, tensor))

    def receive(self, kind, micro, stage, sender):
        tensor = torch.empty_like(self.like)
        dist.recv(tensor, group=self.group, group_src=sender % self.n, tag=self.tag(kind, micro, stage))
        return tensor


@mutant("group ignored")
class RanksOfTheWorld(_Right):
    def send(self, tensor, kind, micro, stage):
        if stage % self.n == self.rank:
            self.arrived[self.tag(kind, micro, stage)] = tensor
        else:
            self.works.append((dist.isend(tensor, stage % self.n, tag=self.tag(kind, micro, stage)), tensor))

    def receive(self, kind, micro, stage, sender):
        if sender % self.n == self.rank:
            return self.arrived.pop(self.tag(kind, micro, stage))
        tensor = torch.empty_like(self.like)
        dist.recv(tensor, sender % self.n, tag=self.tag(kind, micro, stage))
        return tensor


@mutant("losses divided")
class ReturnsWhatItStartsFrom(_Right):
    def returned(self):
        return [self.losses[micro] / self.shape.n_micro for micro in sorted(self.losses)]


@mutant("losses elsewhere")
class LossesEverywhere(_Right):
    def returned(self):
        return super().returned() or [torch.zeros(())] * self.shape.n_micro


@mutant("sum for mean")
class Sums(_Right):
    def root(self, loss):
        return loss


@mutant("last micro-batch only")
class OnlyTheLast(_Right):
    def forward(self, micro, stage):
        super().forward(micro, stage)

    def whole(self, x, y, dy, stage):
        for p in self.stages[stage].parameters():
            p.grad = None
        y.backward(dy)


@mutant("last step only")
class ForgetsEarlierSteps(_Right):
    def step(self, xs, ys):
        for stage in self.stages.values():
            stage.zero_grad()
        return super().step(xs, ys)


@mutant("weights doubled")
class WholeAndThenWeights(_Right):
    def half(self, x, y, dy):
        y.backward(dy, retain_graph=True)
        return x.grad


@mutant("no gradient of the input")
class InputIsAConstant(_Right):
    def input(self, x):
        return x


@mutant("another order")
class AllForwardsFirst(_Right):
    def order(self, steps):
        return sorted(steps, key=lambda step: (step.kind != "F", step.kind == "W"))


@mutant("kept too long")
class KeepsOutputs(_Right):
    def whole(self, x, y, dy, stage):
        self.kept.append(y)
        y.backward(dy)
