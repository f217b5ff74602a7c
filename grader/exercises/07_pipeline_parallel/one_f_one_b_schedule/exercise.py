"""1F1B as a table: warm up, one forward and one backward in turn, cool down."""

from grader.exercises.shared.right_orders import one_f_one_b, schedule_exercise
from grader.exercises.technique.generators import PLAIN

EXERCISE = schedule_exercise(
    title="1F1B as a table",
    sizes=lambda draw: [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))],
    for_grading=[(5, 1), (8, 11), (3, 3)],
    reading=PLAIN.reading,
    right=one_f_one_b,
    points=2,
)
