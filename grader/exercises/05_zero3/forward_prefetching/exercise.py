"""A forward pass that gathers the next layers while it computes: a bounded number of them, each freed after use."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, pieces, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.split_inputs import numbers
from grader.judging.exercise import Case, Draw, Exercise, Slip

LEFT_OUT = ("The last layers are never computed: when nothing is left to be gathered, what was gathered must still be "
            "used.")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, layers: int, depth: int) -> list[dict[str, Any]]:
        shards = [pieces(numbers(draw, 9), n) for _ in range(layers)]
        return [{"x": numbers(draw, 2, 3), "shards": [of_layer[r].clone() for of_layer in shards], "depth": depth}
                for r in range(n)]

    sizes = [(1, 2, 1), (2, 5, 1), (3, 4, 2), (4, 6, 1), (4, 5, 0), (2, 2, 9), *([(5, 6, 3)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {layers} layers, {depth} ahead", tuple(inputs(n, layers, depth)))
             for n, layers, depth in sizes]
    return [*cases, group_case(lambda n: inputs(n, 4, 1), "4 layers, 1 ahead")]


def _layers(case: Case, rank: int) -> range:
    return range(len(case.inputs[rank]["shards"]))


def _output(case: Case, rank: int, layers: Iterable[int], rows: Iterable[int] | None = None) -> torch.Tensor:
    """What comes out of these layers, in this order; rows: those that they compute with, if not their own."""
    x, layers = case.inputs[rank]["x"], list(layers)
    for number, row in zip(layers, rows or layers, strict=True):
        flat = torch.cat([shards[row] for shards in case.peers_inputs(rank, "shards")])
        x = torch.tanh(x @ flat[:9].view(3, 3) + number)
    return x


def _without_those_ahead(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """It ends where nothing is left to be started."""
    layers = _layers(case, rank)
    return _output(case, rank, layers[:max(0, len(layers) - case.inputs[rank]["depth"])])


def _newest_first(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """Each layer takes the row that was started last of those that are left."""
    rows, started, taken = [], 0, []
    for number in _layers(case, rank):
        while started < min(number + 1 + case.inputs[rank]["depth"], len(_layers(case, rank))):
            rows.append(started)
            started += 1
        taken.append(rows.pop())
    return _output(case, rank, _layers(case, rank), taken)


EXERCISE = Exercise(
    title="Gather the next layer while this one computes",
    parameters=("x_BD", "shards", "compute", "depth", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _output(case, r, _layers(case, r))),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    late_s=0.3,
    slips=(
        Slip("last layers left out", LEFT_OUT, lambda case, r, right: _output(case, r, _layers(case, r)[:-1])),
        Slip("last layers left out", LEFT_OUT, _without_those_ahead),
        Slip("newest first", "Layers compute with the parameters of later ones: of the gathers in flight take the one that "
                             "was started first (a queue, not a stack).", _newest_first),
        Slip("wrong order", "The layers run in another order than that of the list.",
             lambda case, r, right: _output(case, r, reversed(_layers(case, r)))),
    ),
)
