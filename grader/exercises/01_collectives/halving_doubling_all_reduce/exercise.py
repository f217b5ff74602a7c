"""Challenge: all-reduce by recursive halving and doubling; as few bytes as a ring in 2·log2 n messages."""

import torch

from grader.exercises.shared.cases import again, big_case, counted, each_rank, ranks, same_shape, subgroup_case, total, xs_of
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Numbers of ranks that are powers of two, lengths that they divide; in one case it is called again."""
    sizes = [(1, 3), (2, draw.integer(1, 4)), (4, draw.integer(1, 4)), (8, draw.integer(1, 3))]
    if grading:
        sizes += [(4, 1), (8, 5)]
    cases = [same_shape(f"{ranks(n)}, {counted(n * k, 'element')}", draw, n, (n * k,)) for n, k in sizes]
    cases.append(again(same_shape("2 ranks, float64", draw, 2, (4,), torch.float64)))
    cases.append(subgroup_case(draw, lambda n: (2 * n,), ((0, 2, 5, 7), (1, 3, 4, 6))))
    return [*cases, big_case("4 ranks, 512 KiB", draw, 4, (1 << 17,))]


EXERCISE = Exercise(
    title="All-reduce by halving and doubling (c)",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
)
