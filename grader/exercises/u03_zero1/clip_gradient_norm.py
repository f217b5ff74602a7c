"""Clip by the global norm, when each rank has only its shard of the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.demands import bytes_sent, group_size, only_calls, results_waited
from grader.exercise import Case, Draw, Exercise, Look, Symptom
from grader.exercises.plain import TOLERANCE
from grader.exercises.u01_collectives.inputs import each_rank, group_case, ranks
from grader.inside.evidence import RAISED
from grader.symptoms import every_rank, group_ignored, same, unwaited, wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, max_norm: float) -> list[dict[str, Any]]:
        return [{"gradient_C": draw.tensor(draw.integer(1, 4), dtype=torch.float64) / 10, "max_norm": max_norm}
                for _ in range(n)]

    def of(numbers: Sequence[Sequence[float]], max_norm: float, dtype: torch.dtype) -> tuple[dict[str, Any], ...]:
        return tuple({"gradient_C": torch.tensor(one, dtype=dtype), "max_norm": max_norm} for one in numbers)

    cases = [Case(f"{ranks(n)}, at most {max_norm:g}", tuple(inputs(n, max_norm)))
             for n, max_norm in ((1, 1.0), (2, 0.5), (3, 1000.0), (4, 1.0), (4, 1000.0), *[(5, 2.0)] * grading)]
    unit = 2.0 ** draw.integer(7, 9)  # 3, 4 and 12 units have the norm 13; their squares overflow in 16 bits
    cases += [
        Case("2 ranks, all zero", of([[0, 0], [0, 0]], 1.0, torch.float64)),
        Case("3 ranks, one owns nothing, at most 1", of([[draw.integer(3, 9)], [], [2]], 1.0, torch.float64)),
        Case("3 ranks, float16, at most 13", of([[3 * unit], [4 * unit, 0], [12 * unit]], 13.0, torch.float16)),
    ]
    return [*cases, group_case(lambda n: inputs(n, 1.0), "at most 1")]


def _norms(case: Case, rank: int) -> list[float]:
    return [float(gradient.double().norm()) for gradient in case.peers_inputs(rank, "gradient_C")]


def _clipped(case: Case, rank: int, norm: float, always: bool = False) -> dict[str, Any]:
    inputs = case.inputs[rank]
    scale = 1.0 if not norm else inputs["max_norm"] / norm if always else min(1.0, inputs["max_norm"] / norm)
    return {"norm": norm, "gradient": inputs["gradient_C"] * scale}


def _global(case: Case, rank: int) -> float:
    return math.sqrt(sum(norm**2 for norm in _norms(case, rank)))


def _as(norm: Callable[[Case, int], float], always: bool = False) -> Callable[[Look], bool]:
    """Norm and gradient of every wrong rank are what clipping by another norm gives."""
    return wrong_ranks(lambda look, r, found, _: same(found, _clipped(look.case, r, norm(look.case, r), always)))


def _by_zero(look: Look) -> bool:
    """A division by a norm of zero, of numbers or of tensors."""
    nan = wrong_ranks(lambda look, r, found, _: bool(found["gradient"].isnan().any()))
    return nan(look) or (look.evidence.ending == RAISED and "ZeroDivisionError" in look.evidence.error)


def _in_16_bits(look: Look) -> bool:
    """Every rank is wrong, or has it infinite, where numbers have 16 bits."""
    return look.case.inputs[0]["gradient_C"].dtype == torch.float16 and every_rank(
        lambda look, r, found, expected: not same(found, expected))(look)


EXERCISE = Exercise(
    id="clip_gradient_norm",
    unit="03_zero1",
    title="Clip by the global norm",
    parameters=("gradient_C", "max_norm", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _clipped(case, r, _global(case, r))),
    adapter="call_clip",
    tolerance=TOLERANCE,
    demands=(
        only_calls("all_reduce", hint="One all-reduce of one number is all the communication that this exercise needs."),
        bytes_sent(lambda look, r: 2 * 8 * group_size(look, r), "one number",
                   "Right, but more than one number travels: square and sum first, then all-reduce the sum."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The norm counts ranks that are not in the group: pass group=group."),
        unwaited(),
        Symptom("own norm", "Each rank clips by the norm of its own shard, so the shards shrink by different factors and "
                            "the gradient changes its direction: sum the squares over ranks first.",
                _as(lambda case, r: _norms(case, r)[case.group_rank(r)])),
        Symptom("norms added", "Norms do not add up, their squares do: sum the squares over ranks, then take the root.",
                _as(lambda case, r: sum(_norms(case, r)))),
        Symptom("root forgotten", "That is the square of the norm: take the root of the sum.",
                _as(lambda case, r: _global(case, r) ** 2)),
        Symptom("always scaled", "A gradient shorter than max_norm is left alone; yours is stretched: the factor is at most "
                                 "1.", _as(_global, always=True)),
        Symptom("not a number", "Where all gradients are zero the factor is 0/0: then leave them alone.", _by_zero),
        Symptom("not scaled", "The norm is right, the gradient is not clipped: scale gradient_C in place (mul_).",
                wrong_ranks(lambda look, r, found, expected: same(found["gradient"], look.case.inputs[r]["gradient_C"]))),
        Symptom("norm after clipping", "The gradients are right; returned is to be the norm before clipping, a float.",
                wrong_ranks(lambda look, r, found, expected: same(found["gradient"], expected["gradient"]))),
        Symptom("16 bits", "In 16 bits a square overflows (300² is infinite in float16) or loses its digits: turn the "
                           "gradient, or its norm, into float32 before you square and sum.", _in_16_bits),
    ),
)
