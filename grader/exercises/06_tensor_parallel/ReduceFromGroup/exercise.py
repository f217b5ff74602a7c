"""Megatron's g: all-reduce forward, identity backward."""

import torch

from grader.exercises.shared.conjugates import (
    conjugate,
    largest,
    made_by,
    mean,
    of_first,
    on_first,
    own,
    own_times_n,
    total,
    total_of_the_second_call,
    total_of_the_world,
    total_times_n,
)

EXERCISE = conjugate("g: sum forward, copy backward", y=total, dx=own, slips=(
    made_by("f and g swapped", "This is f: it passes x on and sums the gradient. g does it the other way round.",
            y=own, dx=total),
    made_by("all-reduced both ways", "y is right, but the gradient was summed as well: every rank has the same dy already, "
                                     "and would get it n times.", dx=total),
    made_by("gradient of all ranks", "y is right, but the gradient was summed, and over all ranks, other groups' too. Every "
                                     "rank of the group has the same dy already: hand it on, without a message.",
            dx=total_of_the_world),
    made_by("summed twice", "y is n times too large: it was summed over ranks, and then once more. One all-reduce gives the "
                            "whole sum.", y=total_times_n),
    made_by("written over", "y holds the sum of a later call: it lies in memory that stays from call to call, and the next "
                            "one writes over it. Make a new tensor in each call.", y=total_of_the_second_call),
    made_by("not summed", "y is this rank's part of the sum only.", y=own),
    made_by("mean", "y is n times too small: the parts are terms of a sum, not estimates to be averaged.", y=mean),
    made_by("first rank's term", "y is the first rank's term: every rank must bring its own x into the sum.", y=of_first),
    made_by("maximum", "y is the largest of the terms: what is needed is their sum.", y=largest),
    made_by("gradient on one rank", "Only the first rank gets dy: it goes to every term of the sum, whole.", dx=on_first),
    made_by("gradient times n", "The gradient is n times too large: y has one loss, counted once.", dx=own_times_n),
    made_by("gradient of ones", "The gradient is 1 everywhere. That is the derivative of the sum alone; backward gets dy, "
                                "the loss's gradient for y, and by the chain rule hands on their product, dy.",
            dx=lambda case, rank, name: torch.ones_like(own(case, rank, name))),
    made_by("gradient divided", "The gradient is divided by n, but each term of a sum gets the sum's whole gradient.",
            dx=lambda case, rank, name: own(case, rank, name) / case.group_size(rank)),
))
