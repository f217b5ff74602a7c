"""GPipe as a table: on every rank all forwards, then all backwards."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.right_orders import gpipe, made_by, one_f_one_b, size_cases
from grader.exercises.technique.generators import plain_reading
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 2), (3, 5), (4, 2), (draw.integer(3, 5), draw.integer(6, 9))]
    return size_cases([*sizes, *([(5, 1), (8, 11)] if grading else [])], "n_stages", "n_micro")


def _a_row_a_micro_batch(case: Case, rank: int, right: list[Any]) -> Any:
    n_stages, n_micro = case.inputs[0].values()
    return {"ranks": n_micro} if n_micro != n_stages else right[rank]


EXERCISE = Exercise(
    title="GPipe as a table",
    parameters=("n_stages", "n_micro"),
    make_cases=_cases,
    oracle=lambda case: [plain_reading(case, gpipe(**case.inputs[0]))],
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        Slip("one row for each micro-batch", "The rows are micro-batches; they should be ranks: for each rank the steps "
                                             "of all micro-batches.", _a_row_a_micro_batch),
        made_by("stage forgotten", "Every rank has the same steps. Rank r works on stage r: its steps say so.",
                plain_reading, lambda n_stages, n_micro: gpipe(1, n_micro) * n_stages),
        made_by("1F1B made", "This is 1F1B. GPipe does all forwards before its first backward.", plain_reading, one_f_one_b),
    ),
)
