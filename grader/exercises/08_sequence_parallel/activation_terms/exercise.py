"""What each part of a transformer block keeps for its backward pass, in bytes."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def terms(s: int, b: int, h: int, a: int) -> dict[str, float]:
    """Korthikanti et al., section 4.1."""
    x, weights = float(s * b * h), float(a * s * s * b)
    return {
        "attention_norm": 2 * x, "qkv": 2 * x,
        "attention.scores": 6 * x, "attention.softmax": 2 * weights, "attention.dropout": weights,
        "attention.mix": 2 * weights, "out": 2 * x, "attention_dropout": x,
        "mlp_norm": 2 * x, "up": 2 * x, "gelu": 8 * x, "down": 8 * x, "mlp_dropout": x,
    }


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(2048, 4, 6144, 64), (2048, 1, 12288, 96), (7, 3, 10, 5),
             (draw.integer(2, 99), draw.integer(2, 9), 12 * draw.integer(1, 9), 6)]
    return [Case(f"s={s}, b={b}, h={h}, a={a}", ({"s": s, "b": b, "h": h, "a": a},)) for s, b, h, a in sizes]


EXERCISE = Exercise(
    title="What a block keeps, part by part",
    forbidden=FORMULAS,
    parameters=("s", "b", "h", "a"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: terms(**case.inputs[rank])),
    tolerance=1e-9,
    points={VALUES: 2},
)
