"""Wrong hooks."""

import torch
import torch.distributed as dist
from torch import nn

from grader.exercises.references import change, mistake

REDUCE = """            layer.reduce()
            layer.finish()
"""
ALL_AT_ONCE = """            self.ready = [*getattr(self, "ready", ()), layer]
            if len(self.ready) == len(layers_of(self.module)):
                for layer in self.ready:
                    layer.reduce()
                    layer.finish()
                self.ready = []
"""
LATE = """            layer.reduce()
            self.late, self.count = [*getattr(self, "late", ()), layer], getattr(self, "count", 0) + 1
            if len(self.late) == 2 or self.count % len(layers_of(self.module)) == 0:
                for layer in self.late:
                    layer.finish()
                self.late = []
"""
SCATTER = "work = dist.reduce_scatter_single(sum_C, flat_Z, group=self.group, async_op=True)"
CHANGES = (
    change("sum for mean", "/ self.n", "", of="ShardedLayer"),
    change("each module a layer", "for part, parameters in layers_of(module):\n",
           "for part in module.modules():\n"
           "            parameters = list(part.parameters(recurse=False))\n"
           "            if not parameters:\n"
           "                continue\n"),
    change("one pair of two", "in layers_of(module):", "in dict(layers_of(module)).items():"),
    change("not gathered", "        layer.gather()\n", "        pass\n"),
    change("not gathered again", "output.register_hook(lambda gradient: layer.gather())", "pass"),
    change("whole layers in forward", "layer.free()", "pass"),
    change("whole layers in backward", REDUCE, ALL_AT_ONCE),
    change("reduced too soon", "if not missing", "if True"),
    change("not at rest", REDUCE, "            pass\n"),
    change("last pass only", "mean if p.grad is None else p.grad + mean", "mean", of="ShardedLayer"),
    change("own rows", SCATTER, SCATTER.replace("sum_C", "torch.empty_like(sum_C)") + "\n            "
           "sum_C = self.n * flat_Z.chunk(self.n)[dist.get_rank(self.group)]", of="ShardedLayer"),
    change("nothing trained", "if has_gradient", "if False", of="ShardedLayer"),
    change("hooks do not wait", REDUCE, LATE),
    change("missing wait", " work.wait()", " pass", of="ShardedLayer"),
    change("group ignored", "ShardedLayer(parameters, group)", "ShardedLayer(parameters)"),
    change("too many bytes", "        layer.gather()\n",
           "        layer.gather()\n        layer.free()\n        layer.gather()\n"),
    change("whole after forward", "        layer.free()\n        if output.requires_grad:\n",
           "        if output.requires_grad:\n            layer.free()\n"),
)


@mistake("library call")
class DataParallelPosing(nn.Module):
    """Whole parameters, and an all-reduce of each gradient."""

    def __init__(self, module, group=None):
        super().__init__()
        self.module = module
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self.average)
        self.group = group

    def average(self, p):
        dist.all_reduce(p.grad, group=self.group)
        p.grad /= dist.get_world_size(self.group)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)
