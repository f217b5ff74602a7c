"""GPipe as a table: on every rank all forwards, then all backwards."""

from grader.exercises.shared.right_orders import gpipe, one_f_one_b, schedule_exercise
from grader.exercises.technique.generators import PLAIN
from utils.schedules.schedule import Schedule


def _a_row_a_micro_batch(n_stages: int, n_micro: int) -> Schedule:
    """Only the number of rows counts; where it is right all the same, the slip does not show."""
    return [[] for _ in range(n_micro)] if n_micro != n_stages else gpipe(n_stages, n_micro)


EXERCISE = schedule_exercise(
    title="GPipe as a table",
    sizes=lambda draw: [(1, 3), (2, 2), (3, 5), (4, 2), (draw.integer(3, 5), draw.integer(6, 9))],
    for_grading=[(5, 1), (8, 11)],
    reading=PLAIN.reading,
    right=gpipe,
    points=2,
    slips=(
        ("one row for each micro-batch", "The rows are micro-batches; they should be ranks: for each rank the steps of all "
                                         "micro-batches.", _a_row_a_micro_batch),
        ("stage forgotten", "Every rank has the same steps. Rank r works on stage r: its steps say so.",
         lambda n_stages, n_micro: gpipe(1, n_micro) * n_stages),
        ("1F1B made", "This is 1F1B. GPipe does all forwards before its first backward.", one_f_one_b),
    ),
)
