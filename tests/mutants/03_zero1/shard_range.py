"""Wrong ranges."""

import torch

from tests.mutants import mutant


def _length(n_elements, n_ranks):
    return -(-n_elements // n_ranks)


@mutant("tail lost")
def rounds_down(n_elements, n_ranks, rank):
    length = n_elements // n_ranks
    return rank * length, (rank + 1) * length


@mutant("lengths differ by one")
def balanced(n_elements, n_ranks, rank):
    length, more = divmod(n_elements, n_ranks)
    start = rank * length + min(rank, more)
    return start, start + length + (rank < more)


@mutant("beyond the end")
def never_cut(n_elements, n_ranks, rank):
    length = _length(n_elements, n_ranks)
    return rank * length, (rank + 1) * length


@mutant("start beyond the end")
def stop_cut_only(n_elements, n_ranks, rank):
    length = _length(n_elements, n_ranks)
    return rank * length, min((rank + 1) * length, n_elements)


@mutant("length for stop")
def start_and_length(n_elements, n_ranks, rank):
    length = _length(n_elements, n_ranks)
    start = min(rank * length, n_elements)
    return start, min((rank + 1) * length, n_elements) - start


@mutant("elements")
def the_numbers(n_elements, n_ranks, rank):
    return torch.arange(n_elements).tensor_split(n_ranks)[rank]


@mutant("last included")
def inclusive(n_elements, n_ranks, rank):
    length = _length(n_elements, n_ranks)
    return min(rank * length, n_elements), min((rank + 1) * length, n_elements) - 1
