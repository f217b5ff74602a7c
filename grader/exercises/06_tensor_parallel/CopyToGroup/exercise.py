"""Megatron's f: identity forward, all-reduce backward."""

from __future__ import annotations

from grader.calling.sharding import BACKWARD, FORWARD
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.conjugates import (
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
    title="f: copy forward, sum backward",
    parameters=("x", "group"),
    make_cases=conjugate_cases,
    oracle=each_rank(lambda case, r: conjugate_result(case, r, OWN, SUM)),
    tolerance=TOLERANCE,
    technique=Technique(
        demands=one_all_reduce(BACKWARD, FORWARD),
        symptoms=(
        *shared_symptoms(),
        Symptom("f and g swapped", "This is g: it sums in forward and passes the gradient on. f does it the other way "
                                   "round.", mixed_up(SUM, OWN)),
        Symptom("all-reduced both ways", "x is the same on all ranks already: forward passes it on, only the gradient is "
                                         "summed.", mixed_up(SUM, SUM)),
        Symptom("gradient not summed", "Forward is right, but the gradient of this rank's use of x is passed back alone: x "
                                       "is used by all ranks, so its gradient is the sum over them.", mixed_up(OWN, OWN)),
        Symptom("mean", "The gradient is n times too small: a sum, not a mean, for all ranks have one loss.",
                mixed_up(OWN, MEAN)),
        Symptom("times n", "Multiplying by n is not summing: each rank's gradient is different.", mixed_up(OWN, TIMES_N)),
        Symptom("x averaged", "Forward leaves the numbers of x as they are.", mixed_up(MEAN, SUM)),
    ),
    ),
)
