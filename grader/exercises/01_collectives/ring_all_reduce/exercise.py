"""Ring all-reduce: reduce-scatter, then all-gather; 2(n−1)·⌈length/n⌉ elements a rank, of any length."""

import torch

from grader.exercises.shared.cases import counted, each_rank, one_tensor_cases, ranks, same_shape, total, xs_of
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Even lengths, then some that n does not divide, one of them shorter than n, one in 16 bits."""
    uneven = [(3, 7), (4, 3)]
    longer = 4 * draw.integer(1, 5) + draw.integer(1, 3)
    if grading:
        uneven += [(4, longer), (5, 1)]
    return [*one_tensor_cases(draw, grading, lambda n, k: (n * k,)),
            same_shape("2 ranks, 5 elements in all, bfloat16", draw, 2, (5,), torch.bfloat16),
            *(same_shape(f"{ranks(n)}, {counted(m, 'element')} in all", draw, n, (m,)) for n, m in uneven)]


EXERCISE = Exercise(
    title="Ring all-reduce",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
)
