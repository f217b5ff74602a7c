"""Unbalanced partitions."""

from tests.mutants import mutant


def _greedy(sizes, n_ranks, order, owner_of):
    held, owners = [0] * n_ranks, [0] * len(sizes)
    for index in order:
        owners[index] = owner_of(held)
        held[owners[index]] += sizes[index]
    return owners


def _lowest(held):
    return held.index(min(held))


@mutant("in turn")
def round_robin(sizes, n_ranks):
    return [index % n_ranks for index in range(len(sizes))]


@mutant("in blocks")
def equal_counts(sizes, n_ranks):
    each = -(-len(sizes) // n_ranks)
    return [index // each for index in range(len(sizes))]


@mutant("given order")
def as_they_come(sizes, n_ranks):
    return _greedy(sizes, n_ranks, range(len(sizes)), _lowest)


@mutant("smallest first")
def ascending(sizes, n_ranks):
    return _greedy(sizes, n_ranks, sorted(range(len(sizes)), key=lambda index: sizes[index]), _lowest)


@mutant("last of equals")
def highest_rank_first(sizes, n_ranks):
    return _greedy(sizes, n_ranks, sorted(range(len(sizes)), key=lambda index: -sizes[index]),
                   lambda held: max(rank for rank in range(n_ranks) if held[rank] == min(held)))


@mutant("as dealt")
def in_the_order_of_size(sizes, n_ranks):
    return _greedy(sorted(sizes, reverse=True), n_ranks, range(len(sizes)), _lowest)


@mutant("all to one")
def everything_to_the_first(sizes, n_ranks):
    return [0] * len(sizes)
