"""Activation bytes of a block on one rank: 34 and 5as/h, divided by t or not, computed again or not."""

from collections.abc import Sequence

from grader.exercises.shared.activations import kept
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(2048, 4, 6144, 64, 8), (2048, 1, 12288, 96, 8), (draw.integer(3, 99), 3, 60, 6, 1), (100, 2, 36, 6, 3)]
    ways = [(parallel, how) for how in ("none", "selective", "full") for parallel in (False, True)]
    return [Case(f"s={s}, b={b}, h={h}, a={a}, t={t}, {'' if parallel else 'no '}sequence parallel, recompute {how}", ({
        "s": s, "b": b, "h": h, "a": a, "t": t, "sequence_parallel": parallel, "recompute": how},))
        for s, b, h, a, t in sizes for parallel, how in ways]


EXERCISE = Exercise(
    title="The table of activations",
    forbidden=FORMULAS,
    parameters=("s", "b", "h", "a", "t", "sequence_parallel", "recompute"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: kept(**case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 2},
)
