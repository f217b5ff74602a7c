"""Everyone passes a tensor to the next rank: fix a version in which everyone sends first and waits."""

from dataclasses import replace

import torch

from grader.exercises.shared.cases import again, each_rank, same_shape, sweep, xs_of
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    k = draw.integer(2, 5)
    cases = sweep(grading, lambda n: [{"x": x} for x in draw.tensors(n, k)])
    whole = again(same_shape("3 ranks, whole numbers", draw, 3, (2, 2), torch.int64))
    alone = same_shape("a group of one beside one of two", draw, 3, (k,))
    return [*(whole if case.world_size == 3 else case for case in cases), replace(alone, groups=((1,), (0, 2)))]


EXERCISE = Exercise(
    title="Pass to the right",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: xs_of(case, rank)[case.group_rank(rank) - 1]),
)
