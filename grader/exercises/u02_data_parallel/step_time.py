"""The time of a step: compute that shrinks with the ranks, and an all-reduce that does not, hidden or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.demands import only_calls
from grader.exercise import VALUES, Case, Draw, Exercise, Look, Symptom
from grader.exercises.u01_collectives.inputs import each_rank, ranks
from grader.symptoms import same, wrong_ranks
from utils.costs import ring_time_s


def seconds(compute_s: float, gradient_bytes: float, n_ranks: int, alpha_s: float, beta_s_per_byte: float,
            overlapped: bool, *, op: str = "all_reduce", backward: float = 2 / 3, ideal: Callable = max) -> float:
    compute_s /= n_ranks
    reduce_s = ring_time_s(op, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte)
    backward_s = backward * compute_s
    return compute_s - backward_s + ideal(backward_s, reduce_s) if overlapped else compute_s + reduce_s


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    found = []
    for n in (1, 2, 4, 64, 1024):
        for overlapped in (False, True):
            found.append(Case(f"{ranks(n)}, {'overlapped' if overlapped else 'one after the other'}", ({
                "compute_s": draw.integer(1, 9) * 1.0, "gradient_bytes": draw.integer(1, 9) * 1e9, "n_ranks": n,
                "alpha_s": 1e-5, "beta_s_per_byte": draw.integer(1, 4) * 1e-10, "overlapped": overlapped},)))
    return found


def _as(**other) -> Callable:
    """What is found is the time by another formula."""
    return wrong_ranks(lambda look, r, found, _: same(found, seconds(**{**look.case.inputs[r], **other})))


def _by(formula: Callable[..., float]) -> Callable:
    return wrong_ranks(lambda look, r, found, _: same(found, formula(**look.case.inputs[r])))


def _not_divided(compute_s: float, n_ranks: int, **rest) -> float:
    return seconds(compute_s * n_ranks, n_ranks=n_ranks, **rest)


def _gradients_divided(look: Look) -> bool:
    """Where nothing overlaps: hidden, their size does not show."""
    matches = _by(lambda gradient_bytes, n_ranks, **rest: seconds(
        gradient_bytes=gradient_bytes / n_ranks, n_ranks=n_ranks, **rest))
    return not look.case.inputs[0]["overlapped"] and matches(look)


EXERCISE = Exercise(
    id="step_time",
    unit="02_data_parallel",
    title="Predict the time of a step",
    parameters=("compute_s", "gradient_bytes", "n_ranks", "alpha_s", "beta_s_per_byte", "overlapped"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: seconds(**case.inputs[r])),
    adapter="call_plain",
    tolerance=1e-6,
    points={VALUES: 2},
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    symptoms=(
        Symptom("compute not divided", "Every rank computes its share of the batch only: compute_s / n.", _by(_not_divided)),
        Symptom("one phase", "A ring all-reduce has two phases of n−1 steps each, reduce-scatter and all-gather.",
                _as(op="reduce_scatter")),
        Symptom("gradients divided", "The gradients do not shrink with the ranks: each rank has one for every parameter.",
                _gradients_divided),
        Symptom("not overlapped", "With overlap the all-reduce runs beside the backward pass: the longer of the two "
                                  "counts, not their sum.", _as(overlapped=False)),
        Symptom("always overlapped", "Without overlap the all-reduce comes after the compute: their sum.",
                _as(overlapped=True)),
        Symptom("hidden by the forward", "Gradients exist only once the backward pass has begun, so the forward third "
                                         "hides nothing.", _as(backward=1.0)),
        Symptom("hidden for free", "What is longer than the backward pass cannot hide behind it: max(backward, "
                                   "all-reduce).", _as(ideal=lambda backward_s, reduce_s: backward_s)),
        Symptom("half and half", "The backward pass takes two thirds of the compute: it has twice the forward's work.",
                _as(backward=1 / 2)),
    ),
)
