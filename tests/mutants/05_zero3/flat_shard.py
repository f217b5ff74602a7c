"""Wrong flat shards."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.mutants import mutant


def _row(parameters):
    return torch.cat([p.detach().flatten() for p in parameters])


def _cut(row, group):
    n = dist.get_world_size(group)
    return F.pad(row, (0, -len(row) % n)).chunk(n)[dist.get_rank(group)]


@mutant("whole kept alive")
def keeps_a_view(parameters, group):
    return _cut(_row(parameters), group)


@mutant("not padded")
def differs_by_one(parameters, group):
    return _row(parameters).tensor_split(dist.get_world_size(group))[dist.get_rank(group)].clone()


@mutant("tail lost")
def rounds_down(parameters, group):
    row, n = _row(parameters), dist.get_world_size(group)
    length = len(row) // n
    return row[dist.get_rank(group) * length:(dist.get_rank(group) + 1) * length].clone()


@mutant("each by itself")
def parameter_by_parameter(parameters, group):
    return torch.cat([_cut(p.detach().flatten(), group) for p in parameters]).clone()


@mutant("padded in front")
def zeros_first(parameters, group):
    row, n = _row(parameters), dist.get_world_size(group)
    return F.pad(row, (-len(row) % n, 0)).chunk(n)[dist.get_rank(group)].clone()


@mutant("dealt like cards")
def every_nth(parameters, group):
    row, n = _row(parameters), dist.get_world_size(group)
    return F.pad(row, (0, -len(row) % n))[dist.get_rank(group)::n].clone()


@mutant("group ignored")
def of_the_world(parameters, group):
    return _cut(_row(parameters), dist.group.WORLD).clone()


@mutant("communicates")
def scatters(parameters, group):
    shard = _cut(_row(parameters), group).clone()
    dist.broadcast(shard.clone(), group=group, group_src=0)
    return shard
