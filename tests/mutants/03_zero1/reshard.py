"""Wrong ways to load a checkpoint on another number of ranks."""

import torch

from tests.mutants import mutant


def _load(saved, n_elements, n_ranks, rank, cut=True, pad=True, names=None):
    length = -(-n_elements // n_ranks)
    loaded = {}
    for name in names or saved[0]:
        whole = torch.cat([one[name] for one in saved])
        if cut:
            whole = whole[:n_elements]
        filled = torch.cat([whole, whole.new_zeros(max(0, n_ranks * length - len(whole)))])
        loaded[name] = (filled if pad else whole)[rank * length:(rank + 1) * length]
    return loaded


@mutant("padding kept")
def keeps_padding(saved, n_elements, n_ranks, rank):
    padded = len(saved) * len(saved[0]["momentum"])
    return _load(saved, padded, n_ranks, rank)


@mutant("not padded")
def leaves_short_shards(saved, n_elements, n_ranks, rank):
    return _load(saved, n_elements, n_ranks, rank, pad=False)


@mutant("old shard")
def its_own_file(saved, n_elements, n_ranks, rank):
    return saved[rank % len(saved)]


@mutant("everything")
def all_of_it(saved, n_elements, n_ranks, rank):
    return {name: torch.cat([one[name] for one in saved])[:n_elements] for name in saved[0]}


@mutant("one tensor only")
def momentum_only(saved, n_elements, n_ranks, rank):
    return _load(saved, n_elements, n_ranks, rank, names=["momentum"])
