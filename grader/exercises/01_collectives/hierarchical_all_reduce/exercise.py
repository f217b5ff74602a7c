"""Hierarchical all-reduce: reduce-scatter inside each node, all-reduce of shards between nodes, all-gather inside."""

import torch

from grader.exercises.shared.cases import big_case, each_rank, ranks, same_shape, total, xs_of
from grader.exercises.shared.collectives import MEAN_FOR_SUM
from grader.judging.exercise import Case, Draw, Exercise, Slip
from grader.judging.slips import unchanged


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """(ranks, ranks of a node): nodes of one rank, one node, and all between."""
    sizes = [(1, 1), (3, 1), (3, 3), (4, 2), (6, 2), (6, 3)]
    if grading:
        sizes += [(4, 1), (6, 6), (8, 2), (8, 4)]
    cases = [_on_nodes(same_shape(f"{ranks(n)}, nodes of {size}", draw, n, (size * draw.integer(1, 3),)), size)
             for n, size in sizes]
    return [*cases, _on_nodes(same_shape("4 ranks, nodes of 2, float64", draw, 4, (4,), torch.float64), 2),
            _on_nodes(big_case("4 ranks, nodes of 2, 128 KiB", draw, 4, (1 << 15,)), 2)]


def _on_nodes(case: Case, node_size: int) -> Case:
    return Case(case.name, tuple(inputs | {"node_size": node_size} for inputs in case.inputs))


def _size(case: Case) -> int:
    return case.inputs[0]["node_size"]


def _of_node(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """The sum over the ranks of one node."""
    first = rank - rank % _size(case)
    return total(xs_of(case, rank)[first:first + _size(case)])


def _own_shards(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """Shard i is summed over the ranks with local rank i alone."""
    xs = xs_of(case, rank)
    return torch.cat([total(xs[i::_size(case)]).chunk(_size(case))[i] for i in range(_size(case))])


def _mixed_shards(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """The shards of a node, added up."""
    return total(right[rank].chunk(_size(case))).repeat(_size(case))


EXERCISE = Exercise(
    title="Hierarchical all-reduce",
    parameters=("x", "node_size"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
    slips=(
        MEAN_FOR_SUM,
        unchanged("Each rank still holds its own x: return the tensor into which the last all-gather wrote."),
        Slip("sum of one node", "The sums are those of one node: between the reduce-scatter and the all-gather, each shard "
             "must be all-reduced with the ranks of the same local rank in the other nodes.", _of_node),
        Slip("not summed in the node", "Each shard is summed over one rank of each node only: the first step must add up "
             "the node's ranks, so that the shard that goes to the other nodes is a sum already.", _own_shards),
        Slip("different shards added", "Different shards are added up: between the nodes, a shard must be all-reduced only "
             "with the ranks of the same local rank, which hold the same shard.", _mixed_shards),
        Slip("shard returned", "Ranks return their own shard of the sum: the last step, an all-gather in the node, brings "
             "the shards together.", lambda case, r, right: right[r].chunk(_size(case))[r % _size(case)]),
    ),
)
