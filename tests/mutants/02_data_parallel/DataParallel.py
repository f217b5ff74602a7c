"""Wrong wrappers."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn

from tests.mutants import mutant


class _WithoutNoSync(nn.Module):
    """A right one but for no_sync, in parts that the mutants replace."""

    def __init__(self, module, group=None):
        super().__init__()
        self.module, self.group, self.syncing, self.works = module, group, True, []
        self.begin()
        for p in self.hooked():
            p.register_post_accumulate_grad_hook(self.arrived)

    def begin(self):
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            dist.broadcast(tensor.data, group=self.group, group_src=0)

    def hooked(self):
        return [p for p in self.module.parameters() if p.requires_grad]

    def arrived(self, p):
        if self.syncing:
            self.start(p)

    def start(self, p):
        self.works.append((p, dist.all_reduce(p.grad, group=self.group, async_op=True)))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        for p, work in self.works:
            work.wait()
            p.grad /= dist.get_world_size(self.group)
        self.works.clear()


class _Wrapper(_WithoutNoSync):
    """A right one."""

    @contextlib.contextmanager
    def no_sync(self):
        self.syncing = False
        yield
        self.syncing = True


@mutant("start not shared")
class KeepsItsOwnStart(_Wrapper):
    def begin(self):
        pass


@mutant("communicates in no_sync")
class SyncsAlways(_Wrapper):
    def arrived(self, p):
        if not self.syncing:
            dist.all_reduce(p.grad.clone(), group=self.group, async_op=True).wait()
        super().arrived(p)


@mutant("reduced twice")
class HooksTwice(_Wrapper):
    def start(self, p):
        copy = p.grad.clone()
        self.works.append((copy, dist.all_reduce(copy, group=self.group, async_op=True)))
        super().start(p)

    def finish_gradient_synchronization(self):
        for p, work in self.works:
            work.wait()
            if isinstance(p, nn.Parameter):
                p.grad /= dist.get_world_size(self.group)
        self.works.clear()


@mutant("not overlapped")
class ReducesAfterwards(_Wrapper):
    def arrived(self, p):
        pass

    def finish_gradient_synchronization(self):
        for p in self.module.parameters():
            if p.grad is not None:
                self.start(p)
        super().finish_gradient_synchronization()


@mutant("blocking call")
class Blocks(_Wrapper):
    def start(self, p):
        dist.all_reduce(p.grad, dist.ReduceOp.AVG, group=self.group)


@mutant("waited too early")
class WaitsInTheHook(_Wrapper):
    def start(self, p):
        dist.all_reduce(p.grad, group=self.group, async_op=True).wait()
        p.grad /= dist.get_world_size(self.group)


@mutant("missing wait")
class NeverWaits(_Wrapper):
    def start(self, p):
        p.grad /= dist.get_world_size(self.group)
        dist.all_reduce(p.grad, group=self.group, async_op=True)


@mutant("buffers forgotten")
class ForgetsBuffers(_Wrapper):
    def begin(self):
        for p in self.module.parameters():
            dist.broadcast(p.data, group=self.group, group_src=0)


@mutant("group demanded")
class NeedsAGroup(_Wrapper):
    def __init__(self, module, group):
        super().__init__(module, group)


@mutant("sum for mean")
class Sums(_Wrapper):
    def finish_gradient_synchronization(self):
        for _, work in self.works:
            work.wait()
        self.works.clear()


@mutant("divided twice")
class AveragesTheAverage(_Wrapper):
    def start(self, p):
        self.works.append((p, dist.all_reduce(p.grad, dist.ReduceOp.AVG, group=self.group, async_op=True)))


@mutant("gradients wrong")
class ReducesTheLastRowsOnly(_Wrapper):
    """What was accumulated before stays each rank's own."""

    @contextlib.contextmanager
    def no_sync(self):
        self.syncing = False
        yield
        self.syncing = True
        self.before = {p: p.grad.clone() for p in self.hooked() if p.grad is not None}

    def start(self, p):
        self.before = getattr(self, "before", {})
        if p in self.before:
            p.grad -= self.before[p]
        super().start(p)

    def finish_gradient_synchronization(self):
        super().finish_gradient_synchronization()
        for p, gradient in getattr(self, "before", {}).items():
            p.grad += gradient
        self.before = {}


@mutant("promoted")
class OneFlatTensorForAll(_Wrapper):
    def arrived(self, p):
        if self.syncing:
            self.here = [*getattr(self, "here", []), p]
            if len(self.here) == len(self.hooked()):
                self.reduce_all()

    def reduce_all(self):
        flat = torch.cat([p.grad.flatten() for p in self.here])
        self.flat = self.here, flat, dist.all_reduce(flat, group=self.group, async_op=True)
        self.here = []

    def finish_gradient_synchronization(self):
        if getattr(self, "here", []):
            self.reduce_all()
        if getattr(self, "flat", None):
            parameters, flat, work = self.flat
            work.wait()
            for p, piece in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                p.grad.copy_(piece.view_as(p) / dist.get_world_size(self.group))
            self.flat = None


@mutant("later steps wrong")
class NeverForgets(_Wrapper):
    def finish_gradient_synchronization(self):
        for p, work in self.works:
            work.wait()
            p.grad /= dist.get_world_size(self.group)


@mutant("frozen hooked")
class HooksFrozen(_Wrapper):
    def hooked(self):
        return list(self.module.parameters())


@mutant("no gradient")
class ReducesUnused(_Wrapper):
    def finish_gradient_synchronization(self):
        for p in self.hooked():
            p.grad.mul_(1.0)
        super().finish_gradient_synchronization()


@mutant("no no_sync")
class HasNoNoSync(_WithoutNoSync):
    pass


@mutant("group ignored")
class InTheWorld(_Wrapper):
    def start(self, p):
        self.works.append((p, dist.all_reduce(p.grad, async_op=True)))


@mutant("library call")
class Gathers(_Wrapper):
    def start(self, p):
        rows = [p.grad.clone() for _ in range(dist.get_world_size(self.group))]
        self.works.append((p, dist.all_gather(rows, p.grad, group=self.group, async_op=True)))
        p.rows = rows

    def finish_gradient_synchronization(self):
        for p, work in self.works:
            work.wait()
            p.grad = sum(p.rows) / len(p.rows)
        self.works.clear()
