"""Wrong wrappers."""

import torch
import torch.distributed as dist
from torch import nn

from tests.mutants import mutant

from . import ShardedLayer, right


@mutant("start not shared")
class KeepsItsOwnStart(right.Wrapper):
    def begin(self):
        pass


@mutant("sum for mean")
class Sums(right.Wrapper):
    class layer_class(right.Layer):
        def scaled(self, total):
            return total


@mutant("later parameters wrong")
class LastPassOnly(right.Wrapper):
    class layer_class(right.Layer):
        def add(self, p, piece):
            p.grad = piece


@mutant("whole layers in forward")
class FreesInTheEnd(right.Wrapper):
    def after_forward(self, layer):
        pass


@mutant("whole layers in backward")
class FreesAfterBackward(right.Wrapper):
    def arrived(self, layer, p):
        pass


@mutant("freed too early")
class NeverGathersAgain(right.Wrapper):
    def hook_backward(self, tensor, layer):
        pass


@mutant("nothing trained")
class LosesTheGradients(right.Wrapper):
    class layer_class(right.Layer):
        def add(self, p, piece):
            pass


@mutant("shards returned")
class ReturnsShards(right.Wrapper):
    def full_parameters(self):
        return {self.names[p]: p.detach().clone() for layer in self.layers for p in layer.parameters}


@mutant("no full_parameters")
class HasNoFullParameters(right.WithoutFullParameters):
    pass


@mutant("computed in another dtype")
class IgnoresTheDtype(right.Wrapper):
    def __init__(self, module, compute_dtype=None, group=None, reshard_after_forward=True):
        super().__init__(module, None, group, reshard_after_forward)


@mutant("inputs not cast")
class CastsParametersOnly(right.Wrapper):
    def cast(self, arguments):
        return arguments


@mutant("frozen hooked")
class HooksFrozen(right.Wrapper):
    def hooked(self, layer):
        return layer.parameters


@mutant("too many bytes")
class ReducesTwice(right.Wrapper):
    class layer_class(right.Layer):
        def send_reduce(self, flat):
            super().send_reduce(flat.clone())[0].wait()
            return super().send_reduce(flat)


@mutant("missing wait")
class NeverWaits(right.Wrapper):
    layer_class = ShardedLayer.DoesNotWait


@mutant("group ignored")
class InTheWorld(right.Wrapper):
    def begin(self):
        for tensor in self.module.parameters():
            dist.broadcast(tensor.data, 0)


@mutant("library call")
class DataParallelPosing(nn.Module):
    """Whole parameters on every rank, and an all-reduce: data parallelism under another name."""

    def __init__(self, module, compute_dtype=None, group=None, reshard_after_forward=True):
        super().__init__()
        self.module, self.group = module, group
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, group=group, group_src=0)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_synchronization(self):
        for p in self.module.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad, group=self.group)
                p.grad /= dist.get_world_size(self.group)

    def full_parameters(self):
        return {name: p.detach().clone() for name, p in self.module.named_parameters()}


@mutant("parameters not divided")
class WholeBetweenSteps(DataParallelPosing):
    """The same with the right collectives: reduce-scatter and all-gather, and nothing sharded."""

    def finish_gradient_synchronization(self):
        n = dist.get_world_size(self.group)
        for p in self.module.parameters():
            if p.grad is not None:
                flat = torch.nn.functional.pad(p.grad.flatten(), (0, -p.grad.numel() % n))
                mine = flat.new_empty(len(flat) // n)
                dist.reduce_scatter_single(mine, flat, group=self.group)
                dist.all_gather_single(flat, mine / n, group=self.group)
                p.grad = flat[:p.numel()].view_as(p)
