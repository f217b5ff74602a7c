"""All-to-all: row r of every rank goes to rank r; (n−1)/n·M bytes a rank."""

import torch

from grader.exercises.shared.cases import each_rank, one_tensor_cases, xs_of
from grader.judging.exercise import Case, Exercise, Slip
from grader.judging.slips import unchanged


def _received(case: Case, rank: int) -> torch.Tensor:
    return torch.stack([x_NC[case.group_rank(rank)] for x_NC in xs_of(case, rank)])


EXERCISE = Exercise(
    title="All-to-all",
    parameters=("x_NC", "group"),
    make_cases=lambda draw, grading: one_tensor_cases(draw, grading, lambda n, k: (n, k)),
    oracle=each_rank(_received),
    slips=(
        unchanged("Each rank still holds its own x_NC: row s of the result must come from rank s.", id="own x returned"),
        Slip("same row to everyone", "Row s of the result is row s of rank s: every rank sent the same row, its own, to "
                                     "all (that is an all-gather). Rank s must get row s of your x_NC.",
             lambda case, r, right: torch.stack([x_NC[s] for s, x_NC in enumerate(xs_of(case, r))])),
        Slip("transposed here", "A rank cannot make the result from its own x_NC: row s of the result is row r of rank "
                                "s's x_NC. Send row s to rank s and receive row s from it.",
             lambda case, r, right: case.inputs[r]["x"].T),
    ),
)
