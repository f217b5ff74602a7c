"""The time of a step: compute that shrinks with the ranks, and an all-reduce that does not, hidden or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks
from utils.costs.formulas import ring_time_s


def seconds(compute_s: float, gradient_bytes: float, n_ranks: int, alpha_s: float, beta_s_per_byte: float,
            overlapped: bool) -> float:
    compute_s /= n_ranks
    reduce_s = ring_time_s("all_reduce", gradient_bytes, n_ranks, alpha_s, beta_s_per_byte)
    return compute_s / 3 + max(2 / 3 * compute_s, reduce_s) if overlapped else compute_s + reduce_s


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    found = []
    for n in (1, 2, 4, 64, 1024):
        for overlapped in (False, True):
            found.append(Case(f"{ranks(n)}, {'overlapped' if overlapped else 'one after the other'}", ({
                "compute_s": draw.integer(1, 9) * 1.0, "gradient_bytes": draw.integer(1, 9) * 1e9, "n_ranks": n,
                "alpha_s": 1e-5, "beta_s_per_byte": draw.integer(1, 4) * 1e-10, "overlapped": overlapped},)))
    return found


def _when(overlapped: bool, test: Callable[..., bool]) -> Callable[[Look], bool]:
    """test(found, expected, inputs, the all-reduce's seconds) in the wrong cases with, or without, overlap.

    What is wrong in both shows in one of them, where nothing hides it.
    """

    def of_rank(look: Look, rank: int, found: float, expected: float) -> bool:
        inputs = look.case.inputs[rank]
        return inputs["overlapped"] == overlapped and test(found, expected, inputs, _all_reduce_s(inputs))

    return wrong_ranks(of_rank)


def _all_reduce_s(inputs: dict, share: float = 1.0) -> float:
    """The time for this share of the gradients."""
    return ring_time_s("all_reduce", share * inputs["gradient_bytes"], inputs["n_ranks"], inputs["alpha_s"],
                       inputs["beta_s_per_byte"])


def _rank_s(inputs: dict) -> float:
    """What one rank computes."""
    return inputs["compute_s"] / inputs["n_ranks"]


def _longer(found: float, expected: float, by: float) -> bool:
    """found is `by` more than what is right."""
    return same(found, expected + by)


EXERCISE = Exercise(
    title="Predict the time of a step",
    parameters=("compute_s", "gradient_bytes", "n_ranks", "alpha_s", "beta_s_per_byte", "overlapped"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: seconds(**case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("compute not divided", "Every rank computes its share of the batch only: compute_s / n.",
                _when(False, lambda found, right, i, _: _longer(found, right, i["compute_s"] - _rank_s(i)))),
        Symptom("one phase", "A ring all-reduce has two phases of n−1 steps each, reduce-scatter and all-gather.",
                _when(False, lambda found, right, i, all_s: _longer(found, right, -all_s / 2))),
        Symptom("gradients divided", "The gradients do not shrink with the ranks: each rank has one for every parameter.",
                _when(False, lambda found, right, i, all_s: _longer(
                    found, right, _all_reduce_s(i, share=1 / i["n_ranks"]) - all_s))),
        Symptom("always overlapped", "Without overlap the all-reduce comes after the compute: their sum.",
                _when(False, lambda found, right, i, _: 0.999 * _rank_s(i) <= found < right)),
        Symptom("not overlapped", "With overlap the all-reduce runs beside the backward pass: the longer of the two "
                                  "counts, not their sum.",
                _when(True, lambda found, _, i, all_s: same(found, _rank_s(i) + all_s))),
        Symptom("hidden by the forward", "Gradients exist only once the backward pass has begun, so the forward third "
                                         "hides nothing.",
                _when(True, lambda found, _, i, all_s: all_s > _rank_s(i) and same(found, all_s))),
        Symptom("hidden for free", "What is longer than the backward pass cannot hide behind it: max(backward, "
                                   "all-reduce).",
                _when(True, lambda found, _, i, all_s: all_s > _rank_s(i) and same(found, _rank_s(i)))),
        Symptom("half and half", "The backward pass takes two thirds of the compute: it has twice the forward's work.",
                _when(True, lambda found, right, i, _: _longer(found, right, _rank_s(i) / 6))),
    ),
    ),
)
