"""Mistakes with gradients that several exercises of data parallelism know."""

from grader.judging.exercise import Case, Slip
from grader.judging.slips import times


def sum_for_mean() -> Slip:
    return times("sum for mean", Case.group_size, "Every gradient is exactly n times too large: you summed where the step "
                                                  "needs the mean. Divide by the number of ranks.")


def divided_twice() -> Slip:
    return times("divided twice", lambda case, rank: 1 / case.group_size(rank),
                 "Every gradient is exactly n times too small: it is divided by n twice.")
