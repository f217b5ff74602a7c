"""The largest model that fits at a stage of ZeRO: the number of parameters is raised until a rank is full."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

WHOLE = {0: 16, 1: 4, 2: 2, 3: 0}  # of a parameter's 16 bytes those that every rank holds


def _full(inputs: dict[str, Any], size: int) -> bool:
    """Whether a model of `size` parameters is too large, in whole numbers: n times what a rank holds, and has."""
    n, whole = inputs["n_ranks"], WHOLE[inputs["stage"]]
    return (n * whole + 16 - whole) * size > n * (inputs["device_bytes"] - inputs["other_bytes"])


def _most(case: Case, rank: int) -> float:
    """One less than the first that is too large."""
    return float(first_enough(lambda size: _full(case.inputs[rank], size)) - 1)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(stage: int, device_bytes: int, n: int, other_bytes: int = 0) -> Case:
        return single(f"stage {stage}, {ranks(n)} of {device_bytes:,} B, {other_bytes:,} B of other things",
                      device_bytes=device_bytes, other_bytes=other_bytes, n_ranks=n, stage=stage)

    few, prime = draw.integer(2, 9) * 1000 + draw.integer(1, 9), (7, 11, 13)[draw.integer(0, 2)]
    cases = [of(stage, *sizes) for sizes in ((80_000_000_000, 64), (80_000_000_000, 1),
                                             (few, prime, draw.integer(100, 900))) for stage in range(4)]
    # Devices that are exactly full. Rounded floats lose a parameter in the second (by // and by a reciprocal) and in the
    # third (by int(… / …)), and in the first none.
    return [*cases, of(0, 1025 * 16, 3), of(1, 1025 * (4 * 7 + 12), 7), of(2, 1025 * (2 * 6 + 14), 6)]


EXERCISE = Exercise(
    title="The largest model that fits",
    forbidden=FORMULAS,
    parameters=("device_bytes", "other_bytes", "n_ranks", "stage"),
    make_cases=_cases,
    oracle=each_rank(_most),
    points={VALUES: 2},
)
