"""Reduce: the broadcast tree backwards, adding on the way; ⌈log2 n⌉ rounds."""

from grader.exercises.shared.cases import each_rank, rooted_cases, total, xs_of
from grader.judging.exercise import Exercise

EXERCISE = Exercise(
    title="Reduce along a tree",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16, largest=8),
    oracle=each_rank(lambda case, r: total(xs_of(case, r)) if case.group_rank(r) == case.inputs[r]["root"] else None),
)
