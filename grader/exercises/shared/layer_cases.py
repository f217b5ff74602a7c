"""Cases, results and known mistakes of one sharded layer, in the exercises that gather it, prefetch it and reduce it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.sharding import ROUNDS, dtype_of
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.split_inputs import numbers
from grader.exercises.shared.zero_cases import slices_on
from grader.judging.exercise import Case, Draw

Pieces = list[Tensor | None]
Shapes = Sequence[tuple[int, ...]]
Inputs = Callable[[int, Shapes, str | None], list[dict[str, Any]]]  # n ranks, shapes of the parameters, compute dtype
SMALL = ((3, 3), (3,), (2,))


def same_on_all(draw: Draw) -> Inputs:
    """Every rank has the same parameters, and nothing else."""

    def inputs(n: int, shapes: Shapes, dtype: str | None) -> list[dict[str, Any]]:
        return [{"parameters": [numbers(draw, *shape) for shape in shapes], "compute_dtype": dtype}] * n

    return inputs


def layer_cases(grading: bool, inputs: Inputs) -> list[Case]:
    sizes = [(1, SMALL, None), (2, SMALL, None), (3, SMALL, "float32"), (4, ((12, 12), (12,)), None),
             (4, ((2, 1), (1,)), "float32"), *([(5, SMALL, None)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {' and '.join('×'.join(map(str, s)) for s in shapes)}"
                  f"{', computing in ' + dtype if dtype else ''}", tuple(inputs(n, shapes, dtype)))
             for n, shapes, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, SMALL, None))]


def pieces_on(case: Case, rank: int, values: Sequence[Tensor | None]) -> Pieces:
    """The part of each parameter's value that lies on `rank`; None where there is none, or no value."""
    parameters = case.inputs[rank]["parameters"]
    filled = [torch.zeros_like(p) if value is None else value for p, value in zip(parameters, values, strict=True)]
    return [None if value is None or not piece.numel() else piece
            for piece, value in zip(slices_on(case, rank, filled), values, strict=True)]


def gathered_states(case: Case, rank: int) -> dict[str, Any]:
    """What the parameters are at rest and gathered: before each round but the first their signs are turned."""
    inputs = case.inputs[rank]
    whole = [p.to(dtype_of(inputs["compute_dtype"] or "float64")) for p in inputs["parameters"]]
    states: dict[str, Any] = {"pieces": pieces_on(case, rank, inputs["parameters"])}
    for number in range(ROUNDS):
        sign = (-1) ** number
        states[f"whole, round {number}"] = [p * sign for p in whole]
        states[f"pieces, round {number}"] = [piece if piece is None else piece * sign for piece in states["pieces"]]
    return {**states, "pieces as before": True}  # the sign was changed twice
