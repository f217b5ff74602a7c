"""Ring all-gather: n−1 steps, one row a step; (n−1)/n·M bytes a rank."""

import torch

from grader.exercises.shared.cases import again, each_rank, one_tensor_cases, xs_of
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """On three ranks it is called again."""
    cases = one_tensor_cases(draw, grading, lambda n, k: (k,))
    return [again(case) if case.world_size == 3 else case for case in cases]


EXERCISE = Exercise(
    title="Ring all-gather",
    parameters=("x_C", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: torch.stack(xs_of(case, r))),
)
