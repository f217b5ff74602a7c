"""Clip by the global norm, when each rank has only its shard of the gradient."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, max_norm: float) -> list[dict[str, Any]]:
        dtype = torch.float64 if n % 2 else torch.float32
        return [{"gradient_C": draw.tensor(draw.integer(1, 4), dtype=dtype) / 10, "max_norm": max_norm} for _ in range(n)]

    def of(numbers: Sequence[Sequence[float]], max_norm: float, dtype: torch.dtype,
           unit: float = 1.0) -> tuple[dict[str, Any], ...]:
        return tuple({"gradient_C": torch.tensor(of_rank, dtype=dtype), "max_norm": max_norm, "unit": unit}
                     for of_rank in numbers)

    cases = [Case(f"{ranks(n)}, at most {max_norm:g}", tuple(inputs(n, max_norm)))
             for n, max_norm in ((1, 1.0), (2, 0.5), (3, 1000.0), (4, 1.0), (4, 1000.0), *[(5, 2.0)] * grading)]
    unit = 2.0 ** draw.integer(7, 9)  # 3, 4 and 12 units have the norm 13; their squares overflow in 16 bits
    cases += [
        Case("2 ranks, all zero", of([[0, 0], [0, 0]], 1.0, torch.float64)),
        Case("3 ranks, one owns nothing, at most 1", of([[draw.integer(3, 9)], [], [2]], 1.0, torch.float64)),
        Case("2 ranks, norm 13·2⁻²⁰, at most 2·2⁻²⁰",
             of([[3.0, 4.0], [12.0]], 2.0, torch.float64, unit=2.0**-20)),
        Case("2 ranks, of norm 1.5, at most 2", of([[1.2], [0.9]], 2.0, torch.float64)),  # whose square is more than 2
        Case("3 ranks, float16, at most 13", of([[3 * unit], [4 * unit, 0], [12 * unit]], 13.0, torch.float16)),
        Case("2 ranks, float16, a shard of norm 2¹⁶", of([[2.0**15] * 4, [0]], 16.0, torch.float16)),  # over its 65,504
    ]
    return [*cases, group_case(lambda n: inputs(n, 1.0), "at most 1")]


def _clipped(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    norm = math.sqrt(sum(float(gradient.double().norm())**2 for gradient in case.peers_inputs(rank, "gradient_C")))
    factor = min(1.0, inputs["max_norm"] / norm) if norm else 1.0
    return {"norm": norm, "gradient": inputs["gradient_C"] * factor}


EXERCISE = Exercise(
    title="Clip by the global norm",
    parameters=("gradient_C", "max_norm", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=each_rank(_clipped),
    trains=True,
    tolerance=TOLERANCE,
)
