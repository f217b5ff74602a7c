"""Wrong wrappers."""

import torch
import torch.distributed as dist
from torch import nn

from grader.exercises.references import change, mistake

MEAN = "sum_C = flat_Z.new_empty(len(self.shard_C))"
CHANGES = (
    change("start not shared", "(*module.parameters(), *module.buffers())", "()"),
    change("buffers not shared", "(*module.parameters(), *module.buffers())", "module.parameters()"),
    change("buffers rounded", "dist.broadcast(tensor.data, group=group, group_src=0)",
           "as_float = tensor.data.double()\n"
           "            dist.broadcast(as_float, group=group, group_src=0)\n"
           "            tensor.data.copy_(as_float)"),
    change("reductions pile up", "            if self.reducing is not None:\n                self.reducing.finish()\n"
           "            self.reducing = layer\n", ""),
    change("precision lost", "(flat_Z, layer.shard_C,",
           "(flat_Z, layer.shard_C.to(layer.flat_Z.dtype).to(flat_Z.dtype),"),
    change("other names", "found[self.names[p]]", "found[str(len(found))]"),
    change("start in another dtype", "layer.shard_C.new_empty(layer.n", "layer.flat_Z.new_empty(layer.n",
           "(flat_Z, layer.shard_C,", "(flat_Z, layer.shard_C.to(flat_Z.dtype),"),
    change("keywords dropped", "self.module(*args, **kwargs)", "self.module(*args)"),
    change("parameters not cast", "ShardedLayer(parameters, group, compute_dtype)", "ShardedLayer(parameters, group)"),
    change("sum for mean", "/ self.n", "", of="ShardedLayer"),
    change("later parameters wrong", "mean if p.grad is None else p.grad + mean", "mean", of="ShardedLayer"),
    change("whole layers in forward", "        layer.free()\n\n    def _arrived", "\n    def _arrived"),
    change("whole layers in backward", "if not self.missing[layer]", "if False", "        for layer in self.layers:\n"
           "            layer.free()", "        for layer in self.layers:\n            if layer.is_whole:\n"
           "                layer.reduce()\n            layer.free()"),
    change("freed too early", "output.register_hook(lambda _: self._gather(layer, -1))", "pass"),
    change("nothing trained", "if has_gradient", "if False", of="ShardedLayer"),
    change("shards returned", "part.view(shape).clone()", "p.detach().clone()"),
    change("computed in another dtype", "self.compute_dtype = module, compute_dtype", "self.compute_dtype = module, None",
           "ShardedLayer(parameters, group, compute_dtype)", "ShardedLayer(parameters, group)"),
    change("inputs not cast", "cast_floats((args, kwargs), self.compute_dtype)", "args, kwargs"),
    change("too many bytes", MEAN, f"{MEAN}\n            dist.reduce_scatter_single(sum_C, flat_Z, group=self.group)",
           of="ShardedLayer"),
    change("missing wait", " work.wait()", " pass", of="ShardedLayer"),
    change("group ignored", "group=group, group_src=0", "0"),
)

EQUIVALENT = {
    "if 0 <= neighbour < len(self.order): | 0 <= neighbour < len(self.order) → 0 < neighbour < len(self.order)":
        "Prefetching is allowed and not demanded.",
    "self.order[neighbour].start_gather() | self.order[neighbour].start_gather() → pass":
        "Prefetching is allowed and not demanded.",
    "self._gather(layer, +1) | 1 → 0": "Prefetching is allowed and not demanded.",
    "self._gather(layer, +1) | 1 → 2": "Prefetching is allowed and not demanded.",
    "layer.free() | layer.free() → pass, again": "reduce() has freed what was whole.",
    "if 0 <= neighbour < len(self.order): | 0 → (-1)": "A layer that is gathered in vain stays within the bounds.",
    "self.order[neighbour].start_gather() | neighbour → neighbour - 1":
        "Which neighbour is begun early is left open, and one gathered in vain stays within the bounds.",
    "if 0 <= neighbour < len(self.order): | 0 → 1": "Prefetching is allowed and not demanded.",
    "output.register_hook(lambda _: self._gather(layer, -1)) | 1 → 0": "Prefetching is allowed and not demanded.",
    "output.register_hook(lambda _: self._gather(layer, -1)) | 1 → 2":
        "What is prefetched is free, within the bound on whole layers.",
    "self.reducing = None | self.reducing = None → pass": "A reduction that is finished already is not finished again.",
    "found[self.names[p]] = part.view(shape).clone() | part.view(shape).clone() → part.view(shape)":
        "The row was gathered for this alone.",
}


@mistake("library call")
class DataParallelPosing(nn.Module):
    """Whole parameters on every rank, and an all-reduce: data parallelism under another name."""

    def __init__(self, module, compute_dtype=None, group=None):
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


@mistake("parameters not divided")
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
