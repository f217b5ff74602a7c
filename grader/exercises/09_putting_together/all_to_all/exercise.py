"""All-to-all: row r of every rank goes to rank r; (n−1)/n·M bytes a rank."""

import torch

from grader.exercises.shared.cases import each_rank, one_tensor_cases, xs_of
from grader.judging.exercise import Case, Exercise


def _received(case: Case, rank: int) -> torch.Tensor:
    return torch.stack([x_NC[case.group_rank(rank)] for x_NC in xs_of(case, rank)])


EXERCISE = Exercise(
    title="All-to-all",
    parameters=("x_NC", "group"),
    make_cases=lambda draw, grading: one_tensor_cases(draw, grading, lambda n, k: (n, k)),
    oracle=each_rank(_received),
)
