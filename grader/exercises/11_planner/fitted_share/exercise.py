"""The share of the peak that fits measured steps best, and its error on steps that are left out of the fit."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from grader.evidence.case import REFUSED
from grader.exercises.shared.cases import counted, each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

Step = dict[str, float]
CLEAR = Fraction(1, 1000)  # by how much, relatively, the best share of a drawn case beats the second: rounding plays no part


def misfit(steps: Sequence[Step], share: float) -> Fraction:
    """How many times too long or too short the steps are planned, multiplied: the least has the least mean logarithm."""
    factors = Fraction(1)
    for step in steps:
        planned = Fraction(step["flops"]) / (Fraction(share) * Fraction(step["peak"])) + Fraction(step["other_s"])
        factors *= max(planned, Fraction(step["measured_s"])) / min(planned, Fraction(step["measured_s"]))
    return factors


def fit(steps: Sequence[Step], shares: Sequence[float]) -> float:
    misfits = [misfit(steps, share) for share in shares]
    return shares[misfits.index(min(misfits))]


def others(steps: Sequence[Step], left_out: int) -> list[Step]:
    """All but one; a single step has no others, and is itself what is fitted to."""
    return [step for i, step in enumerate(steps) if i != left_out] or [*steps]


def _right(case: Case, rank: int) -> dict[str, list[str]] | tuple[float, float]:
    steps, shares = case.inputs[rank]["steps"], case.inputs[rank]["shares"]
    if not steps or not shares:
        return {REFUSED: ["shares" if steps else "steps"]}
    product = math.prod(misfit([step], fit(others(steps, i), shares)) for i, step in enumerate(steps))
    return fit(steps, shares), math.log(product) / len(steps)


def is_clear(steps: Sequence[Step], shares: Sequence[float]) -> bool:
    """Whether each fit has one best share, whatever order sums are taken in, and no error is 0 but for rounding."""
    if any(misfit([step], share) < 1 + CLEAR for step in steps for share in shares):
        return False
    for fitted in [steps, *(others(steps, i) for i in range(len(steps)))]:
        least, *more = sorted(misfit(fitted, share) for share in shares)
        if more and more[0] < least * (1 + CLEAR):
            return False
    return True


def _drawn(draw: Draw, n_steps: int, shares: Sequence[float], alike: bool = False) -> dict[str, Any]:
    """Steps that fit different shares, with more or less beside their products. alike: the first comes once more."""
    while True:
        steps = []
        for _ in range(n_steps):
            peak, products_s, other_s = draw.integer(3, 9) * 1e14, draw.integer(8, 64) / 4, draw.integer(1, 48) / 8
            measured_s = products_s / (draw.integer(20, 90) / 100) + other_s * draw.integer(4, 12) / 8
            steps.append({"flops": products_s * peak, "peak": peak, "other_s": other_s, "measured_s": measured_s})
        steps += [{**steps[0]}] if alike else []
        if is_clear(steps, shares):
            return {"steps": steps, "shares": [*shares]}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    tenths, mixed = [n / 10 for n in range(2, 10)], [0.55, 0.3, 0.85, 0.4, 0.7, 0.25]
    wanted = [(5, tenths), (3, mixed), (4, tenths[::-1]), (6, mixed), (2, tenths), *([(7, mixed)] * 3 if grading else [])]
    cases = [single(f"{counted(n, 'step')}, {len(shares)} shares", **_drawn(draw, n, shares)) for n, shares in wanted]
    cases.append(single("3 steps, two of them alike, 8 shares", **_drawn(draw, 2, tenths, alike=True)))
    # Powers of two, so that these misfits are equal to the last digit: 0.5 is half as long as measured, 0.125 twice.
    even = [{"flops": peak / 4, "peak": peak, "other_s": 0.0, "measured_s": 1.0} for peak in (2.0**48, 2.0**49)]
    longer = {**even[0], "flops": even[0]["flops"] * 4}
    equal = {"equally good, the larger first": [0.5, 0.125], "equally good, the smaller first": [0.125, 0.5]}
    cases += [single(f"two shares {name}", steps=even, shares=shares) for name, shares in equal.items()]
    cases += [single(f"two shares {name}, where one is left out", steps=[*even, longer], shares=shares)
              for name, shares in equal.items()]
    cases += [single("one step, 8 shares", **_drawn(draw, 1, tenths)),
              single("one share, 3 steps", **_drawn(draw, 3, [0.4]))]
    return [*cases, single("no steps: refused", steps=[], shares=tenths),
            single("no shares: refused", steps=_drawn(draw, 2, tenths)["steps"], shares=[])]


EXERCISE = Exercise(
    title="Fit the share of the peak",
    forbidden=FORMULAS,
    parameters=("steps", "shares"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
    points={VALUES: 2},
    edges={"a single step": r"^one step", "equally good shares": "equally good"},
)
