"""Time a collective as benchmarks do: warm up, start together, many calls, the slowest rank counts."""

from collections.abc import Callable
from statistics import mean

from grader.exercises.shared.cases import TWO_GROUPS, each_rank, ranks
from grader.judging.exercise import Case, Draw, Exercise, Slip
from grader.judging.slips import unchanged

FIRST_S = 64.0  # by the clock of the case: the first call is far slower than the others


def _cases(draw: Draw, grading: bool) -> list[Case]:
    sizes = [(1, 4), (2, draw.integer(2, 9)), (3, draw.integer(2, 9)), (4, 8)]
    of_five = draw.integer(2, 9)
    if grading:
        sizes.append((5, of_five))
    cases = [_case(f"{ranks(n)}, {repeats} repeats", draw, n, repeats) for n, repeats in sizes]
    return [*cases, _case("groups (1,3,4) and (0,2)", draw, 5, 4, TWO_GROUPS)]


def _case(name: str, draw: Draw, n: int, repeats: int, groups: tuple | None = None) -> Case:
    """Each rank needs another time for a call: whole 1/64 s, so that sums are exact."""
    later_s = [number / 64 for number in draw.numbers.sample(range(1, 30), n)]
    return Case(name, tuple({"first_s": FIRST_S, "later_s": s, "repeats": repeats} for s in later_s), groups)


def _over_ranks(id: str, combine: Callable[[list[float]], float], hint: str) -> Slip:
    """What the ranks measured, combined in another way than by its maximum."""
    return Slip(id, hint, lambda case, r, right: combine(case.peers_inputs(r, "later_s")))


EXERCISE = Exercise(
    title="Time a collective",
    parameters=("run_once", "repeats", "clock", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: max(case.peers_inputs(r, "later_s"))),
    tolerance=1e-6,
    slips=(
        Slip("total, not per call", "This is the time of all repeats together: divide by repeats.",
             lambda case, r, right: right[r] * case.inputs[r]["repeats"]),
        unchanged("Each rank returns its own time: a collective is done when the slowest rank is done, so take the maximum "
                  "over the ranks (all_reduce with dist.ReduceOp.MAX).", "own time", "later_s"),
        _over_ranks("mean over ranks", mean, "This is the mean over the ranks: a collective is done when the slowest rank "
                                             "is done, so take the maximum."),
        _over_ranks("sum over ranks", sum, "The times of the ranks were added up (SUM is all_reduce's default): they run "
                                           "at the same time, so take the maximum, dist.ReduceOp.MAX."),
        _over_ranks("fastest rank", min, "This is the fastest rank's time: a collective is done when the slowest rank is "
                                         "done."),
        Slip("warm-up counted", "You divide by repeats + 1, but only repeats calls lie between the two readings of the "
                                "clock.",
             lambda case, r, right: right[r] * case.inputs[r]["repeats"] / (case.inputs[r]["repeats"] + 1)),
    ),
)
