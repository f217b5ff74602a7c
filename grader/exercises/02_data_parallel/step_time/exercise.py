"""The time of a step: compute that shrinks with the ranks, and an all-reduce that does not, hidden or not."""

from typing import Any

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.costs.formulas import ring_time_s


def _seconds(inputs: dict[str, Any]) -> float:
    compute_s = inputs["compute_s"] / inputs["n_ranks"]
    reduce_s = ring_time_s("all_reduce", inputs["gradient_bytes"], inputs["n_ranks"], inputs["alpha_s"],
                           inputs["beta_s_per_byte"])
    return compute_s / 3 + max(2 / 3 * compute_s, reduce_s) if inputs["overlapped"] else compute_s + reduce_s


def _cases(draw: Draw, grading: bool) -> list[Case]:
    return [single(f"{ranks(n)}, {'overlapped' if overlapped else 'one after the other'}",
                   compute_s=draw.integer(1, 9) * 1.0, gradient_bytes=draw.integer(1, 9) * 1e9, n_ranks=n,
                   alpha_s=1e-5, beta_s_per_byte=draw.integer(1, 4) * 1e-10, overlapped=overlapped)
            for n in (1, 2, 4, 64, 1024) for overlapped in (False, True)] + [
        single("4 ranks, 10 bytes, one after the other", compute_s=1.0, gradient_bytes=10.0, n_ranks=4, alpha_s=0.5,
               beta_s_per_byte=0.25, overlapped=False)]


EXERCISE = Exercise(
    title="Predict the time of a step",
    forbidden=FORMULAS,
    parameters=("compute_s", "gradient_bytes", "n_ranks", "alpha_s", "beta_s_per_byte", "overlapped"),
    make_cases=_cases,
    oracle=lambda case: [_seconds(case.inputs[0])],
    tolerance=1e-6,
    points={VALUES: 2},
)
