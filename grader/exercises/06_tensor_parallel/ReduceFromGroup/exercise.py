"""Megatron's g: all-reduce forward, identity backward."""

from __future__ import annotations

from grader.calling.sharding import BACKWARD, FORWARD
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.conjugates import (
    DIVIDED,
    MEAN,
    OWN,
    SUM,
    TIMES_N,
    conjugate_cases,
    conjugate_result,
    mixed_up,
    one_all_reduce,
    shared_symptoms,
)
from grader.exercises.shared.split_demands import TOLERANCE
from grader.judging.exercise import Exercise, Symptom, Technique

EXERCISE = Exercise(
    title="g: sum forward, copy backward",
    parameters=("x", "group"),
    make_cases=conjugate_cases,
    oracle=each_rank(lambda case, r: conjugate_result(case, r, SUM, OWN)),
    tolerance=TOLERANCE,
    technique=Technique(
        demands=one_all_reduce(FORWARD, BACKWARD),
        symptoms=(
        *shared_symptoms(),
        Symptom("f and g swapped", "This is f: it passes x on and sums the gradient. g does it the other way round.",
                mixed_up(OWN, SUM)),
        Symptom("all-reduced both ways", "y is right, but the gradient was summed as well: every rank has the same dy "
                                         "already, and would get it n times.", mixed_up(SUM, SUM)),
        Symptom("not summed", "y is this rank's part of the sum only.", mixed_up(OWN, OWN)),
        Symptom("mean", "y is n times too small: the parts are terms of a sum, not estimates to be averaged.",
                mixed_up(MEAN, OWN)),
        Symptom("gradient times n", "The gradient is n times too large: y has one loss, counted once.",
                mixed_up(SUM, TIMES_N)),
        Symptom("gradient divided", "The gradient is divided by n, but each term of a sum gets the sum's whole gradient.",
                mixed_up(SUM, DIVIDED)),
    ),
    ),
)
