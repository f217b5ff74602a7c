"""Wrong ways to greet."""

import torch.distributed as dist

from tests.mutants import mutant


@mutant("printed, not returned")
def prints_only():
    print(f"hello from rank {dist.get_rank()} of {dist.get_world_size()}")


@mutant("rank not defined")
def as_in_a_ranks_cell():
    return f"hello from rank {rank} of {world_size}"  # noqa: F821


@mutant("counted from one")
def counts_from_one():
    return f"hello from rank {dist.get_rank() + 1} of {dist.get_world_size()}"


@mutant("last rank for world size")
def names_the_last_rank():
    return f"hello from rank {dist.get_rank()} of {dist.get_world_size() - 1}"


@mutant("world size written in")
def knows_four_ranks():
    return f"hello from rank {dist.get_rank()} of 4"


@mutant("all the same")
def knows_its_rank():
    return f"hello from rank 0 of {dist.get_world_size()}"


@mutant("swapped")
def swaps():
    return f"hello from rank {dist.get_world_size()} of {dist.get_rank()}"


@mutant("other words")
def in_other_words():
    return f"Hello from rank {dist.get_rank()} of {dist.get_world_size()}!"


@mutant("not called")
def forgets_parentheses():
    return f"hello from rank {dist.get_rank} of {dist.get_world_size}"
