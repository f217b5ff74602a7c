"""Everyone passes a tensor to the next rank: fix a version in which everyone receives first."""

from grader.exercises.shared.cases import each_rank, sweep, xs_of
from grader.judging.exercise import Case, Draw, Exercise
from grader.judging.slips import of_another, unchanged


def _cases(draw: Draw, grading: bool) -> list[Case]:
    k = draw.integer(2, 5)
    return sweep(grading, lambda n: [{"x": x} for x in draw.tensors(n, k)])


EXERCISE = Exercise(
    title="Pass to the right",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: xs_of(case, rank)[case.group_rank(rank) - 1]),
    slips=(
        of_another("passed left", 2, "The tensors travel the wrong way: receive from the rank before, send to the rank "
                                     "after."),
        unchanged("Each rank returns its own x: return the tensor that you received into."),
    ),
)
