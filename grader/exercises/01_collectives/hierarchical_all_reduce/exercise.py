"""Hierarchical all-reduce: reduce-scatter inside each node, all-reduce of shards between nodes, all-gather inside."""

import torch

from grader.exercises.shared.cases import big_case, each_rank, ranks, same_shape, total, xs_of
from grader.judging.exercise import Case, Draw, Exercise


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


EXERCISE = Exercise(
    title="Hierarchical all-reduce",
    parameters=("x", "node_size"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
)
