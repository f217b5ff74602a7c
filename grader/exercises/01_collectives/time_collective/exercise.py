"""Time a collective as benchmarks do: warm up, start together, many calls, the slowest rank counts."""

from collections.abc import Callable
from statistics import mean

from grader.exercises.shared.cases import TWO_GROUPS, each_rank, ranks
from grader.judging.exercise import Case, Draw, Exercise

FIRST_S = 64.0  # by the clock of the case: the first call is far slower than the others
APART_S = 16.0  # by which the clocks of ranks differ
TICK_S = 2.0 ** -38  # sums of these are exact in float64, in float32 they are not


def _cases(draw: Draw, grading: bool) -> list[Case]:
    sizes = [(1, 4), (2, draw.integer(2, 9)), (3, draw.integer(2, 9)), (4, 8)]
    of_five = draw.integer(2, 9)
    if grading:
        sizes.append((5, of_five))
    cases = [_case(f"{ranks(n)}, {repeats} repeats", draw, n, repeats) for n, repeats in sizes]
    return [*cases, _case("groups (1,3,4) and (0,2)", draw, 5, 4, TWO_GROUPS)]


def _case(name: str, draw: Draw, n: int, repeats: int, groups: tuple | None = None) -> Case:
    """Each call of each rank needs another time."""
    return Case(name, tuple(
        {"first_s": FIRST_S, "times_s": [slow / 64 + draw.integer(1, 2**30) * TICK_S for _ in range(repeats)],
         "repeats": repeats, "set_s": APART_S * (n - rank)}
        for rank, slow in enumerate(draw.numbers.sample(range(1, 30), n))), groups)


def _per_call_s(case: Case, rank: int, of_calls: Callable[[list[float]], float] = mean) -> list[float]:
    """What each rank of a group measures."""
    return [of_calls(times_s) for times_s in case.peers_inputs(rank, "times_s")]


EXERCISE = Exercise(
    title="Time a collective",
    parameters=("run_once", "repeats", "clock", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: max(_per_call_s(case, r))),
    tolerance=1e-9,
)
