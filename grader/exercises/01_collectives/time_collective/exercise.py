"""Time a collective as benchmarks do: warm up, start together, many calls, the slowest rank counts."""

from collections.abc import Callable
from statistics import mean

from grader.exercises.shared.cases import TWO_GROUPS, each_rank, ranks
from grader.judging.exercise import Case, Draw, Exercise, Slip

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


def _by_several_clocks(case: Case, rank: int) -> float:
    """From the first reading of any rank to the last one."""
    repeats = case.inputs[rank]["repeats"]
    starts_s = [set_s + FIRST_S for set_s in case.peers_inputs(rank, "set_s")]
    ends_s = [start_s + repeats * each_s for start_s, each_s in zip(starts_s, _per_call_s(case, rank), strict=True)]
    return (max(ends_s) - min(starts_s)) / repeats


def _over_ranks(id: str, combine: Callable[[list[float]], float], hint: str) -> Slip:
    """What the ranks measured, combined in another way than by its maximum."""
    return Slip(id, hint, lambda case, r, right: combine(_per_call_s(case, r)))


def _over_calls(id: str, of_calls: Callable[[list[float]], float], hint: str) -> Slip:
    """A rank's time per call found in another way than by a mean over its repeats."""
    return Slip(id, hint, lambda case, r, right: max(_per_call_s(case, r, of_calls)))


EXERCISE = Exercise(
    title="Time a collective",
    parameters=("run_once", "repeats", "clock", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: max(_per_call_s(case, r))),
    tolerance=1e-9,
    slips=(
        Slip("total, not per call", "This is the time of all repeats together: divide by repeats.",
             lambda case, r, right: right[r] * case.inputs[r]["repeats"]),
        Slip("own time", "Each rank returns its own time: a collective is done when the slowest rank is done, so take the "
             "maximum over the ranks (all_reduce with dist.ReduceOp.MAX).",
             lambda case, r, right: mean(case.inputs[r]["times_s"])),
        _over_ranks("mean over ranks", mean, "This is the mean over the ranks: a collective is done when the slowest rank "
                                             "is done, so take the maximum."),
        _over_ranks("sum over ranks", sum, "The times of the ranks were added up (SUM is all_reduce's default): they run "
                                           "at the same time, so take the maximum, dist.ReduceOp.MAX."),
        _over_ranks("fastest rank", min, "This is the fastest rank's time: a collective is done when the slowest rank is "
                                         "done."),
        Slip("warm-up counted", "You divide by repeats + 1, but only repeats calls lie between the two readings of the "
                                "clock.",
             lambda case, r, right: right[r] * case.inputs[r]["repeats"] / (case.inputs[r]["repeats"] + 1)),
        _over_calls("first call only", lambda times_s: times_s[0],
                    "This is the time of one call: one alone may be fast or slow by chance. Time repeats of them between "
                    "two readings of the clock, and divide."),
        _over_calls("best call", min, "This is the time of the fastest of the calls: asked is their mean, the time of all "
                                      "repeats divided by repeats."),
        _over_calls("a repeat is missing", lambda times_s: sum(times_s[:-1]) / len(times_s),
                    "Only repeats − 1 calls lie between the two readings of the clock, and you divide by repeats: the "
                    "warm-up is a call more, not one of them."),
        Slip("several clocks", "Readings of different ranks' clocks were compared: their clocks need not agree. Each rank "
             "takes the difference of its own two readings, and of these the largest counts.",
             lambda case, r, right: _by_several_clocks(case, r)),
        Slip("milliseconds", "These are milliseconds: the clock gives seconds, and seconds are asked.",
             lambda case, r, right: 1e3 * right[r]),
    ),
)
