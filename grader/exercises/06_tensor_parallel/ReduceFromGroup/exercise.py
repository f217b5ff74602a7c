"""Megatron's g: all-reduce forward, identity backward."""

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.conjugates import conjugate_cases, own, total
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Exercise, Slip

EXERCISE = Exercise(
    title="g: sum forward, copy backward",
    parameters=("x", "group"),
    make_cases=conjugate_cases,
    oracle=each_rank(lambda case, r: {"y": total(case, r, "x"), "dx": own(case, r, "dy")}),
    tolerance=TOLERANCE,
    slips=(
        Slip("f and g swapped", "This is f: it passes x on and sums the gradient. g does it the other way round.",
             lambda case, r, right: {"y": own(case, r, "x"), "dx": total(case, r, "dy")}),
        Slip("all-reduced both ways", "y is right, but the gradient was summed as well: every rank has the same dy already, "
                                      "and would get it n times.",
             lambda case, r, right: right[r] | {"dx": total(case, r, "dy")}),
        Slip("not summed", "y is this rank's part of the sum only.",
             lambda case, r, right: right[r] | {"y": own(case, r, "x")}),
        Slip("mean", "y is n times too small: the parts are terms of a sum, not estimates to be averaged.",
             lambda case, r, right: right[r] | {"y": right[r]["y"] / case.group_size(r)}),
        Slip("gradient times n", "The gradient is n times too large: y has one loss, counted once.",
             lambda case, r, right: right[r] | {"dx": right[r]["dx"] * case.group_size(r)}),
        Slip("gradient divided", "The gradient is divided by n, but each term of a sum gets the sum's whole gradient.",
             lambda case, r, right: right[r] | {"dx": right[r]["dx"] / case.group_size(r)}),
    ),
)
