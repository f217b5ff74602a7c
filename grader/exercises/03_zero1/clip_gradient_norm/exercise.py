"""Clip by the global norm, when each rank has only its shard of the gradient."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip

ADDED = 1e-6  # by torch.nn.utils.clip_grad_norm_


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


def _norms(case: Case, rank: int) -> list[float]:
    return [float(gradient.double().norm()) for gradient in case.peers_inputs(rank, "gradient_C")]


def _whole_norm(case: Case, rank: int) -> float:
    return math.sqrt(sum(norm**2 for norm in _norms(case, rank)))


def _scaled(id: str, hint: str, clip: Callable[[Tensor, float, float], Tensor]) -> Slip:
    """The norm is right, the gradient is clip(this rank's, the norm, max_norm)."""
    return Slip(id, hint, lambda case, r, right: right[r] | {"gradient": clip(
        case.inputs[r]["gradient_C"], right[r]["norm"], case.inputs[r]["max_norm"])})


def _of_the_whole(g: Tensor, norm: float, max_norm: float) -> Tensor:
    return g * min(1.0, max_norm / norm) if norm else g


def _squared(dtype: torch.dtype, g: Tensor, norm: float, max_norm: float) -> Tensor:
    """Gradients of this type were squared before they were scaled."""
    return _of_the_whole(g * g if g.dtype == dtype else g, norm, max_norm)


def _to_full_length_each(g: Tensor, norm: float, max_norm: float) -> Tensor:
    return g * (max_norm / g.norm().clamp(min=1e-6)) if norm > max_norm else g


def _clipped(case: Case, rank: int, norm: float, largest: float = 1.0) -> dict[str, Any]:
    """By a norm of which it is not asked whether it is right, and a factor that is at most `largest`."""
    inputs = case.inputs[rank]
    factor = min(largest, inputs["max_norm"] / norm) if norm else 1.0
    return {"norm": norm, "gradient": inputs["gradient_C"] * factor}


def _in_plain_units(slip: Slip) -> Slip:
    """Where a case has units of its own, only what is added to a norm tells."""
    return replace(slip, shows=lambda case: slip.shows(case) and case.inputs[0].get("unit", 1.0) == 1.0)


_USUAL = (
    Slip("own norm", "Each rank clips by the norm of its own shard, so the shards shrink by different factors and "
                     "the gradient changes its direction: sum the squares over ranks first.",
         lambda case, r, right: _clipped(case, r, _norms(case, r)[case.group_rank(r)])),
    Slip("norms added", "Norms do not add up, their squares do: sum the squares over ranks, then take the root.",
         lambda case, r, right: _clipped(case, r, sum(_norms(case, r)))),
    Slip("root forgotten", "That is the square of the norm: take the root of the sum.",
         lambda case, r, right: _clipped(case, r, _whole_norm(case, r) ** 2)),
    Slip("mean of squares", "That is the norm of a mean: the squares of all ranks add up, and are not divided by their "
                            "number.",
         lambda case, r, right: _clipped(case, r, _whole_norm(case, r) / math.sqrt(case.group_size(r)))),
    Slip("largest number", "That is the largest element, not the length: sum the squares of all elements, and take the "
                           "root.", lambda case, r, right: _clipped(case, r, max(
                               float(g.abs().max()) for g in case.peers_inputs(r, "gradient_C") if len(g)))),
    _scaled("each number clamped", "Each element is clamped by itself, which turns the gradient's direction: scale all "
                                   "elements by one factor, max_norm / norm.",
            lambda g, norm, max_norm: g.clamp(-max_norm, max_norm)),
    _scaled("each piece at the limit", "Each rank scales its own shard to max_norm, and the whole stays longer than "
                                       "that: one factor for all ranks, from the norm of the whole.",
            _to_full_length_each),
    *(_scaled("squared in place", "The norm is right, and the gradient holds squares: where it has that dtype already, "
                                  "float() or double() makes no copy, so square it with square(), not in place.",
              partial(_squared, dtype)) for dtype in (torch.float32, torch.float64)),
    _scaled("squares compared", "The norm that is returned is right, but its square is compared with max_norm: take the "
                                "root first.",
            lambda g, norm, max_norm: g * (max_norm / norm) if norm**2 > max_norm else g),
    Slip("always scaled", "A gradient shorter than max_norm is left alone; yours is stretched: the factor is at most "
                          "1.", lambda case, r, right: _clipped(case, r, _whole_norm(case, r), math.inf)),
    Slip("norm after clipping", "The gradients are right; returned is to be the norm before clipping, a float.",
         lambda case, r, right: right[r] | {"norm": min(right[r]["norm"], case.inputs[r]["max_norm"])}),
)

EXERCISE = Exercise(
    title="Clip by the global norm",
    parameters=("gradient_C", "max_norm", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _clipped(case, r, _whole_norm(case, r))),
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        Slip("something added to the norm", "The norm has something added to it before it divides, 1e-6 perhaps: of a "
             "gradient as small as that the clipped norm is no longer max_norm. A norm above max_norm is not 0.",
             lambda case, r, right: right[r] | {"gradient": _of_the_whole(
                 case.inputs[r]["gradient_C"], right[r]["norm"] + ADDED / case.inputs[r]["unit"],
                 case.inputs[r]["max_norm"])},
             lambda case: case.inputs[0].get("unit", 1.0) < ADDED),
        Slip("not scaled", "The norm is right, the gradient is not clipped: scale gradient_C itself, in place (mul_). What "
             "float() gives of 16 bits is a copy.",
             lambda case, r, right: right[r] | {"gradient": case.inputs[r]["gradient_C"]}),
        *map(_in_plain_units, _USUAL),
    ),
)
