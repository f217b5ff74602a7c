"""Wrong ways to cut a list."""

import torch.distributed as dist

from tests.mutants import mutant


@mutant("everything")
def keeps_everything(items, group):
    return items


@mutant("remainder dropped")
def drops_the_remainder(items, group):
    r, k = dist.get_rank(group), len(items) // dist.get_world_size(group)
    return items[r * k:(r + 1) * k]


@mutant("rest to the last")
def gives_the_rest_to_the_last(items, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    k = len(items) // n
    return items[r * k:] if r == n - 1 else items[r * k:(r + 1) * k]


@mutant("rounded up")
def rounds_up(items, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    k = (len(items) + n - 1) // n
    return items[r * k:(r + 1) * k]


@mutant("dealt like cards")
def deals_like_cards(items, group):
    return items[dist.get_rank(group)::dist.get_world_size(group)]


@mutant("extras elsewhere")
def spreads_the_extras(items, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    return items[len(items) * r // n:len(items) * (r + 1) // n]


@mutant("ignores the group")
def cuts_for_the_world(items, group):
    r, n = dist.get_rank(), dist.get_world_size()
    k, extra = divmod(len(items), n)
    start = r * k + min(r, extra)
    return items[start:start + k + (1 if r < extra else 0)]


@mutant("communicates")
def lets_rank_0_decide(items, group):
    import torch

    r, n = dist.get_rank(group), dist.get_world_size(group)
    length = torch.tensor(len(items))
    dist.broadcast(length, group=group, group_src=0)
    k, extra = divmod(length.item(), n)
    start = r * k + min(r, extra)
    return items[start:start + k + (1 if r < extra else 0)]


@mutant("lost or doubled")
def forgets_its_own_extra(items, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    k, extra = divmod(len(items), n)
    start = r * k + min(r, extra)
    return items[start:start + k]
