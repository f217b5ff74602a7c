"""Challenge: all-reduce by recursive halving and doubling; as few bytes as a ring in 2·log2 n messages."""

import torch

from grader.exercises.shared.cases import big_case, counted, each_rank, ranks, same_shape, subgroup_case, total, xs_of
from grader.exercises.shared.collectives import MEAN_FOR_SUM
from grader.judging.exercise import Case, Draw, Exercise, Slip
from grader.judging.slips import unchanged


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Numbers of ranks that are powers of two, lengths that they divide."""
    sizes = [(1, 3), (2, draw.integer(1, 4)), (4, draw.integer(1, 4)), (8, draw.integer(1, 3))]
    if grading:
        sizes += [(4, 1), (8, 5)]
    cases = [same_shape(f"{ranks(n)}, {counted(n * k, 'element')}", draw, n, (n * k,)) for n, k in sizes]
    cases.append(subgroup_case(draw, lambda n: (2 * n,), ((0, 2, 5, 7), (1, 3, 4, 6))))
    return [*cases, big_case("4 ranks, 512 KiB", draw, 4, (1 << 17,))]


def _with_partner(case: Case, rank: int, distance: int) -> torch.Tensor:
    """The sum of two ranks' x."""
    return case.inputs[rank]["x"] + xs_of(case, rank)[case.group_rank(rank) ^ distance]


def _crossed_halves(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """Of two ranks: the lower half of x is added to the partner's upper half, and the other way round."""
    (low, high), (partners_low, partners_high) = (case.inputs[r]["x"].chunk(2) for r in (rank, 1 - rank))
    return torch.cat([low + partners_high, partners_low + high])


EXERCISE = Exercise(
    title="All-reduce by halving and doubling (c)",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
    optional=True,
    slips=(
        MEAN_FOR_SUM,
        unchanged("Each rank still holds its own x: nothing that was received was added."),
        Slip("a piece returned", "Ranks return their own finished piece only: the doubling half, which brings the pieces "
                                 "together, is missing.",
             lambda case, r, right: right[r].chunk(case.group_size(r))[case.group_rank(r)]),
        *(Slip("one exchange only", "Each value is the sum of two ranks' only: go on exchanging, with ranks at all "
                                    "distances n/2, n/4, …, 1.",
               lambda case, r, right, distance=distance: _with_partner(case, r, distance(case.group_size(r))),
               shows=lambda case: case.world_size > 1) for distance in (lambda n: n // 2, lambda n: 1)),
        Slip("wrong half", "A rank's lower half was added to its partner's upper half: one of the two keeps the lower "
                           "half and is sent that, the other the upper; the rank whose bit is 0 (r < partner) keeps the "
                           "lower.", _crossed_halves, shows=lambda case: case.world_size == 2),
    ),
)
