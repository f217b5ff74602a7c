"""What a rank sends for one transformer layer and step under tensor parallelism: four all-reduces of the activations."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2048, 12288, 8), (draw.integer(2, 9), 1000, 768, 6), (4, draw.integer(100, 900), 640, 3), (1, 512, 96, 1),
             (1, 3, 5, 7)]  # the last is no whole number of bytes
    return [Case(f"{b}×{t}×{d}, {ranks(n)}", ({"batch": b, "length": t, "dim": d, "n_ranks": n},)) for b, t, d, n in sizes]


def _sent(case: Case, rank: int) -> float:
    inputs = case.inputs[rank]
    array_bytes, n = 2.0 * inputs["batch"] * inputs["length"] * inputs["dim"], inputs["n_ranks"]
    return 4 * 2 * (n - 1) / n * array_bytes


EXERCISE = Exercise(
    title="Bytes of a layer",
    forbidden=FORMULAS,
    parameters=("batch", "length", "dim", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(_sent),
    tolerance=1e-6,
    points={VALUES: 2},
)
