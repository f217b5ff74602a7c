"""Broadcast along a binomial tree: ⌈log2 n⌉ rounds, since everyone who has x passes it on."""

from grader.exercises.shared.cases import each_rank, root_x, rooted_cases
from grader.judging.exercise import Exercise

EXERCISE = Exercise(
    title="Broadcast along a tree",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16, largest=8),
    oracle=each_rank(root_x),
)
