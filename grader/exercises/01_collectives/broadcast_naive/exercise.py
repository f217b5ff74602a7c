"""Broadcast, the naive way: the root sends x to each other rank, (n−1)·M bytes from one place."""

from grader.exercises.shared.cases import each_rank, root_x, rooted_cases
from grader.judging.exercise import Exercise

EXERCISE = Exercise(
    title="Broadcast, the naive way",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,)),
    oracle=each_rank(root_x),
    points={"values": 1, "technique": 1},
)
