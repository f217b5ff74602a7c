"""Wrong ways to shard a batch."""

import torch.distributed as dist

from tests.mutants import mutant


@mutant("everything")
def keeps_all(x_BD, group):
    return x_BD


@mutant("rows dropped")
def drops_the_rest(x_BD, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    b = len(x_BD) // n
    return x_BD[r * b:(r + 1) * b]


@mutant("rest to the last")
def gives_the_rest_to_the_last(x_BD, group):
    n, r = dist.get_world_size(group), dist.get_rank(group)
    b = len(x_BD) // n
    return x_BD[r * b:] if r == n - 1 else x_BD[r * b:(r + 1) * b]


@mutant("rounded up")
def chunks(x_BD, group):
    return x_BD.chunk(dist.get_world_size(group))[dist.get_rank(group)]


@mutant("dealt like cards")
def deals(x_BD, group):
    return x_BD[dist.get_rank(group)::dist.get_world_size(group)]


@mutant("columns")
def cuts_columns(x_BD, group):
    return x_BD.tensor_split(dist.get_world_size(group), dim=-1)[dist.get_rank(group)]


@mutant("group ignored")
def shards_for_the_world(x_BD, group):
    return x_BD.tensor_split(dist.get_world_size())[dist.get_rank()]


@mutant("communicates")
def scatters(x_BD, group):
    mine = x_BD.tensor_split(dist.get_world_size(group))[dist.get_rank(group)].clone()
    dist.barrier(group)
    return mine
