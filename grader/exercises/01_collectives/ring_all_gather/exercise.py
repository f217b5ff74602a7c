"""Ring all-gather: n−1 steps, one row a step; (n−1)/n·M bytes a rank."""

import torch

from grader.exercises.shared.cases import again, each_rank, one_tensor_cases, xs_of
from grader.exercises.shared.collectives import neighbour_x, written_over
from grader.judging.exercise import Case, Draw, Exercise, Slip, Wrong


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """On three ranks it is called again."""
    cases = one_tensor_cases(draw, grading, lambda n, k: (k,))
    return [again(case) if case.world_size == 3 else case for case in cases]


def _others_are(shift: int) -> Wrong:
    """All rows but its own hold x of one neighbour."""

    def wrong(case, rank, right) -> torch.Tensor:
        rows_NC = neighbour_x(case, rank, shift).repeat(len(right[rank]), 1)
        rows_NC[case.group_rank(rank)] = case.inputs[rank]["x"]
        return rows_NC

    return wrong


EXERCISE = Exercise(
    title="Ring all-gather",
    parameters=("x_C", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: torch.stack(xs_of(case, r))),
    slips=(
        Slip("own row again and again", "All rows but your own hold the left neighbour's: from the second step on pass "
                                        "on the row that arrived last, not your own again.", _others_are(-1)),
        Slip("one buffer", "All rows but your own are equal, to what arrived last: they share one receive buffer. "
                           "Receive into the row of the result, or copy what arrived.", _others_are(1)),
        Slip("order of arrival", "All rows are there, but in the order of arrival: what arrives in step s left rank "
                                 "r−s−1, so it is row (r−s−1) mod n.",
             lambda case, r, right: torch.stack([neighbour_x(case, r, -s) for s in range(len(right[r]))])),
        written_over("The rows that a call returned changed when the function was called again: both results lie in one "
                     "tensor, kept from call to call. Make a new one in each call, x_C.new_empty(n, *x_C.shape)."),
        Slip("columns", "The rows lie as columns, (C, n); wanted is (n, C), one row a rank.",
             lambda case, r, right: right[r].T),
        Slip("own row last", "All rows are there, but each rank has its own at the end: row s of the result is that of rank "
             "s, on every rank.", lambda case, r, right: right[r].roll(-1 - case.group_rank(r), 0)),
        *(Slip("rows shifted by one", "All rows are there, but each stands one place off: what arrives in step s left "
                                      "rank r−s−1, so it is row (r−s−1) mod n.",
               lambda case, r, right, places=places: right[r].roll(places, 0)) for places in (1, -1)),
    ),
)
