"""Megatron's f: identity forward, all-reduce backward."""

from grader.exercises.shared.conjugates import (
    conjugate,
    largest,
    made_by,
    mean,
    of_first,
    own,
    own_times_n,
    total,
    total_times_n,
)

EXERCISE = conjugate("f: copy forward, sum backward", y=own, dx=total, slips=(
    made_by("f and g swapped", "This is g: it sums in forward and passes the gradient on. f does it the other way round.",
            y=total, dx=own),
    made_by("all-reduced both ways", "x is the same on all ranks already: forward passes it on, only the gradient is "
                                     "summed.", y=total),
    made_by("gradient not summed", "Forward is right, but the gradient of this rank's use of x is passed back alone: x is "
                                   "used by all ranks, so its gradient is the sum over them.", dx=own),
    made_by("mean", "The gradient is n times too small: a sum, not a mean, for all ranks have one loss.", dx=mean),
    made_by("summed twice", "The gradient is n times too large: it was summed over ranks, and then once more. One "
                            "all-reduce gives the whole sum.", dx=total_times_n),
    made_by("times n", "Multiplying by n is not summing: each rank's gradient is different.", dx=own_times_n),
    made_by("maximum", "The gradient is the largest of the ranks' shares: what is needed is their sum.", dx=largest),
    made_by("first rank's gradient", "Every rank has the gradient of the first: it is the sum over ranks.", dx=of_first),
    made_by("x averaged", "Forward leaves the numbers of x as they are.", y=mean),
))
