"""How merge_attention must be done, and how it can fail."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.rings import LEAST
from grader.exercises.technique.sequences import first_wrong_is, other_numbers
from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import every_rank, raised
from utils.models.attention import attend


@every_rank
def _has_nan(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return bool(not found["o"].isfinite().all() or found["lse"].isnan().any() or (found["lse"] == float("inf")).any())


@every_rank
def _has_vanished(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """As if no query had seen a key."""
    return bool((found["lse"] == LEAST).all())


def _is_plain(look: Look) -> bool:
    """Two parts, of which slips tell more."""
    inputs = look.case.inputs[0]
    return len(inputs["ks"]) == 2 and inputs["q"].dtype == torch.float64 and not _unseen_keys(look)


def _is_large(look: Look) -> bool:
    """Scores in the thousands."""
    return any(bool(lse.abs().max() > 500) for lse in _lse_of_parts(look, look.working[0]))


def _unseen_keys(look: Look) -> bool:
    return any(not seen.any(-1).all() for seen in look.case.inputs[0]["seen"])


# ── which queries a wrong maximum loses: right everywhere else, or it was something else ──


def _lost(look: Look, rank: int, found: Any, expected: Any) -> Tensor:
    """Which queries have another o or lse than they should, (B, H, P)."""
    near = {"rtol": 1e-4, "atol": 1e-4}
    right = torch.isclose(found["o"], expected["o"], **near).all(-1) & torch.isclose(found["lse"], expected["lse"], **near)
    return ~right


def _lse_of_parts(look: Look, rank: int) -> list[Tensor]:
    inputs = look.case.inputs[rank]
    return [attend(inputs["q"], k, v)[1] for k, v in zip(inputs["ks"], inputs["vs"], strict=True)]


def _exactly(lost: Tensor, surely: Tensor, perhaps: Tensor) -> bool:
    return bool(surely.any() and lost[surely].all() and not lost[~perhaps].any())


@every_rank
def _far_below_lost(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """Those whose larger lse lies so far below the largest of all that the exponential of the difference is 0."""
    largest, smallest = torch.stack(_lse_of_parts(look, rank)).amax(0), math.log(torch.finfo(found["o"].dtype).tiny)
    below = largest - largest.max()
    lost = _lost(look, rank, found, expected)
    return not _unseen_keys(look) and _exactly(lost, below < 1.2 * smallest, below < smallest + 1)


def _overflow_of(other: int) -> Callable[[Look], bool]:
    """Those for which part `other` is so much heavier that the exponential of the difference overflows."""

    @every_rank
    def matches(look: Look, rank: int, found: Any, expected: Any) -> bool:
        parts = _lse_of_parts(look, rank)
        above, largest = parts[other] - parts[1 - other], math.log(torch.finfo(found["o"].dtype).max)
        return _exactly(_lost(look, rank, found, expected), above > largest + 1, above > largest - 1)

    return lambda look: len(look.case.inputs[0]["ks"]) == 2 and not _unseen_keys(look) and matches(look)


TECHNIQUE = Technique(
    demands=(only_calls(id="communicates"),
             inputs_kept(gate=True)),
    symptoms=(
        raised("must match the size", "weights without a dimension"),
        *other_numbers(),
        Symptom("one maximum for all", _far_below_lost),
        *(Symptom("one part's maximum", _overflow_of(number))
          for number, one, other in ((1, "first", "second"), (0, "second", "first"))),
        Symptom("overflow", lambda look: not _unseen_keys(look) and (_has_nan(look) or _has_vanished(look))),
        Symptom("nothing seen", lambda look: _unseen_keys(look) and _has_nan(look)),
    ),
    fallbacks=(
        Symptom("wrong lse", lambda look: _is_plain(look) and first_wrong_is("lse")(look)),
        Symptom("wrong lse", first_wrong_is("lse"), alone=True),
        Symptom("extremes wrong", lambda look: _unseen_keys(look) or _is_large(look), alone=True),
    ),
)
