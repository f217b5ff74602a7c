"""What a rank holds without ZeRO and at its three stages: the published table, by one formula."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

BYTES = {"parameters": 2, "gradients": 2, "state": 12}
DIVIDED_FROM = {"parameters": 3, "gradients": 2, "state": 1}  # the first stage that does


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    prime = (11, 13, 17)[draw.integer(0, 2)]  # and so few parameters that rounding shows
    sizes = [(7_500_000_000, 64), (7_500_000_000, 1), (draw.integer(3, 9) * prime + draw.integer(1, prime - 1), prime)]
    return [single(f"stage {stage}, {size:,} parameters on {ranks(n)}", n_parameters=size, n_ranks=n, stage=stage)
            for size, n in sizes for stage in range(4)]


def _held(case: Case, rank: int) -> float:
    stage, size, n = (case.inputs[rank][name] for name in ("stage", "n_parameters", "n_ranks"))
    return float(size * sum(each / (n if stage >= DIVIDED_FROM[part] else 1) for part, each in BYTES.items()))


EXERCISE = Exercise(
    title="The table of the ZeRO paper",
    forbidden=FORMULAS,
    parameters=("n_parameters", "n_ranks", "stage"),
    make_cases=_cases,
    oracle=each_rank(_held),
    tolerance=1e-9,
    points={VALUES: 2},
)
