"""Interleaved 1F1B: several stages on each rank, and so a smaller bubble."""

from grader.exercises.shared.right_orders import interleaved, schedule_exercise

from .technique import reading

EXERCISE = schedule_exercise(
    title="Interleaved stages (c)",
    parameters=("n_ranks", "n_chunks", "n_micro"),
    sizes=lambda draw: [(1, 2, 3), (2, 2, 4), (3, 2, 6), (2, 3, 2), (3, 2, 3), (3, 1, 6), (4, draw.integer(2, 3), 8),
                        (4, 2, 6), (4, 2, 2)],
    for_grading=[(4, 1, 8), (5, 2, 10), (3, 2, 7)],
    reading=reading,
    right=interleaved,
)
