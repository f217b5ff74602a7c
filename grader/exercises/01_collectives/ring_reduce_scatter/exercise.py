"""Ring reduce-scatter: n−1 steps, one chunk a step; (n−1)/n·M bytes a rank."""

import torch

from grader.exercises.shared.cases import each_rank, one_tensor_cases, total, xs_of
from grader.exercises.shared.collectives import MEAN_FOR_SUM, neighbour_x
from grader.judging.exercise import Case, Draw, Exercise, Slip
from grader.judging.slips import of_another


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Two ranks have 16-bit numbers, whose sums are exact, too, and three have whole ones."""
    cases, others = one_tensor_cases(draw, grading, lambda n, k: (n, k)), {2: torch.float16, 3: torch.int32}
    return [_in(others[case.world_size], case) if case.world_size in others and "float64" not in case.name else case
            for case in cases]


def _in(dtype: torch.dtype, case: Case) -> Case:
    name = f"{case.name}, {str(dtype).removeprefix('torch.')}"
    return Case(name, tuple({"x": inputs["x"].to(dtype)} for inputs in case.inputs))


def _row_r(case: Case, rank: int, shift: int = 0) -> torch.Tensor:
    """This rank's row of what a neighbour has."""
    return neighbour_x(case, rank, shift)[case.group_rank(rank)]


def _running(case: Case, rank: int) -> torch.Tensor:
    """As if each rank added what it had passed on to what came, as well."""
    xs, n = xs_of(case, rank), case.group_size(rank)
    partials = [x[r - 1] for r, x in enumerate(xs)]
    for step in range(n - 1):
        partials = [partials[r - 1] + xs[r][(r - 2 - step) % n] + partials[r] for r in range(n)]
    return partials[case.group_rank(rank)]


EXERCISE = Exercise(
    title="Ring reduce-scatter",
    parameters=("x_NC", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))[case.group_rank(r)]),
    slips=(
        MEAN_FOR_SUM,
        Slip("whole sum returned", "Ranks returned all n rows: reduce-scatter leaves each rank only its own row, C "
                                   "elements.", lambda case, r, right: total(xs_of(case, r))),
        Slip("own row", "Ranks returned row r of their own x_NC, to which nothing was ever added: sending chunk r−s in "
                        "step s completes row r+1, not row r; start one chunk earlier, with r−1.",
             lambda case, r, right: _row_r(case, r)),
        of_another("row of the next rank", 1, "The sums are complete, but each rank holds the row of the next one: in "
                                              "step s send chunk r−s−1, not r−s, and the last chunk to arrive is row r."),
        of_another("row of the rank before", -1, "The sums are complete, but each rank holds the row of the rank before "
                                                 "it: count the chunks so that the last one to arrive is row r."),
        Slip("partial sums not passed on", "Row r holds only two ranks' parts, yours and the left neighbour's: pass on "
                                           "the sum of what came and your own chunk, not your own chunk alone.",
             lambda case, r, right: _row_r(case, r) + _row_r(case, r, -1)),
        Slip("own partial added", "What you passed on is in your sum again: add to what came your own chunk, and not the "
                                  "partial sum that you sent.", lambda case, r, right: _running(case, r)),
        Slip("nothing added", "Row r is some single rank's: what arrives must be added to your own chunk, not replace "
                              "it.", lambda case, r, right: _row_r(case, r, 1)),
    ),
)
