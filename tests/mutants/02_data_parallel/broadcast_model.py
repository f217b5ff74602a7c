"""Wrong ways to start from one model."""

import torch.distributed as dist
from torch import nn

from tests.mutants import mutant


@mutant("buffers forgotten")
def forgets_buffers(model, group):
    for p in model.parameters():
        dist.broadcast(p.data, group=group, group_src=0)


@mutant("frozen forgotten")
def forgets_frozen(model, group):
    for p in (*model.parameters(), *model.buffers()):
        if p.requires_grad or not isinstance(p, nn.Parameter):
            dist.broadcast(p.data, group=group, group_src=0)


@mutant("parameters forgotten")
def forgets_parameters(model, group):
    for buffer in model.buffers():
        dist.broadcast(buffer, group=group, group_src=0)


@mutant("another rank's model")
def from_the_last(model, group):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.data, group=group, group_src=dist.get_world_size(group) - 1)


@mutant("nothing sent")
def into_copies(model, group):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach().clone(), group=group, group_src=0)


@mutant("parameter replaced")
def new_parameters(model, group):
    for module in model.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            value = p.detach().clone()
            dist.broadcast(value, group=group, group_src=0)
            setattr(module, name, nn.Parameter(value, requires_grad=p.requires_grad))
    for buffer in model.buffers():
        dist.broadcast(buffer, group=group, group_src=0)


@mutant("sent twice")
def state_and_parameters(model, group):
    for tensor in (*model.state_dict().values(), *model.parameters()):
        dist.broadcast(tensor.data, group=group, group_src=0)


@mutant("group ignored")
def in_the_world(model, group):
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.data, src=0)


@mutant("library call")
def by_sums(model, group):
    for tensor in (*model.parameters(), *model.buffers()):
        if dist.get_rank(group) != 0:
            tensor.data.zero_()
        dist.all_reduce(tensor.data, group=group)
