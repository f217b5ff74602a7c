"""Megatron's f: identity forward, all-reduce backward."""

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.conjugates import conjugate_cases, own, total
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Exercise, Slip

EXERCISE = Exercise(
    title="f: copy forward, sum backward",
    parameters=("x", "group"),
    make_cases=conjugate_cases,
    oracle=each_rank(lambda case, r: {"y": own(case, r, "x"), "dx": total(case, r, "dy")}),
    tolerance=TOLERANCE,
    slips=(
        Slip("f and g swapped", "This is g: it sums in forward and passes the gradient on. f does it the other way round.",
             lambda case, r, right: {"y": total(case, r, "x"), "dx": own(case, r, "dy")}),
        Slip("all-reduced both ways", "x is the same on all ranks already: forward passes it on, only the gradient is "
                                      "summed.", lambda case, r, right: right[r] | {"y": total(case, r, "x")}),
        Slip("gradient not summed", "Forward is right, but the gradient of this rank's use of x is passed back alone: x is "
                                    "used by all ranks, so its gradient is the sum over them.",
             lambda case, r, right: right[r] | {"dx": own(case, r, "dy")}),
        Slip("mean", "The gradient is n times too small: a sum, not a mean, for all ranks have one loss.",
             lambda case, r, right: right[r] | {"dx": right[r]["dx"] / case.group_size(r)}),
        Slip("times n", "Multiplying by n is not summing: each rank's gradient is different.",
             lambda case, r, right: right[r] | {"dx": own(case, r, "dy") * case.group_size(r)}),
        Slip("x averaged", "Forward leaves the numbers of x as they are.",
             lambda case, r, right: right[r] | {"y": total(case, r, "x") / case.group_size(r)}),
    ),
)
