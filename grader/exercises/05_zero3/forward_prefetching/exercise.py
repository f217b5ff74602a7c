"""A forward pass that gathers the next layers while it computes: a bounded number of them, each freed after use."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, pieces, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, layers: int, depth: int) -> list[dict[str, Any]]:
        shards = [pieces(numbers(draw, 9), n) for _ in range(layers)]
        return [{"x": numbers(draw, 2, 3), "shards": [of_layer[r].clone() for of_layer in shards], "depth": depth}
                for r in range(n)]

    sizes = [(1, 2, 1), (2, 5, 1), (3, 4, 2), (4, 6, 1), (4, 5, 0), (2, 2, 9), *([(5, 6, 3)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {layers} layers, {depth} ahead", tuple(inputs(n, layers, depth)))
             for n, layers, depth in sizes]
    return [*cases, group_case(lambda n: inputs(n, 4, 1), "4 layers, 1 ahead")]


def _output(case: Case, rank: int) -> torch.Tensor:
    x = case.inputs[rank]["x"]
    for number, shards in enumerate(zip(*case.peers_inputs(rank, "shards"), strict=True)):
        x = torch.tanh(x @ torch.cat(shards)[:9].view(3, 3) + number)
    return x


EXERCISE = Exercise(
    title="Gather the next layer while this one computes",
    parameters=("x_BD", "shards", "compute", "depth", "group"),
    make_cases=_cases,
    oracle=each_rank(_output),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    late_s=0.3,
)
