"""ZB-H1: the backward in two pieces, the weights' piece where the bubble was."""

from grader.exercises.shared.right_orders import schedule_exercise, zero_bubble

from .technique import reading

EXERCISE = schedule_exercise(
    title="Zero bubble, ZB-H1 (c)",
    sizes=lambda draw: [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))],
    for_grading=[(5, 1), (8, 16), (3, 3)],
    reading=reading,
    right=zero_bubble,
)
