"""Wrong explanations of schedules."""

from tests.mutants import mutant
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, STUCK, TOO_EARLY, TOO_MANY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Step

from .right import needed


def _rank_fault(steps, rank, shape):
    stages = range(rank, shape.n_stages, shape.n_ranks)
    for step in steps:
        for why, wrong in ((UNKNOWN_KIND, step.kind not in shape.kinds), (NOT_THIS_RANKS, step.stage not in stages),
                           (NO_SUCH_MICRO, step.micro not in range(shape.n_micro))):
            if wrong:
                return Fault(rank, step, why)
    for i, step in enumerate(steps):
        if step in steps[:i]:
            return Fault(rank, step, REPEATED)
    for step in (Step(k, m, s) for s in stages for m in range(shape.n_micro) for k in shape.kinds):
        if step not in steps:
            return Fault(rank, step, MISSING)
    for i, step in enumerate(steps):
        if any(need.stage in stages and need not in steps[:i] for need in needed(step, shape.n_stages)):
            return Fault(rank, step, TOO_EARLY)
    return None


def _own(schedule, shape):
    rows = [*schedule, *[[]] * (shape.n_ranks - len(schedule))]
    return next((fault for rank, row in enumerate(rows) if (fault := _rank_fault(row, rank, shape))), None)


def _left(schedule, shape):
    done, rows, moved = set(), [list(row) for row in schedule], True
    while moved:
        moved = False
        for row in rows:
            while row and done.issuperset(needed(row[0], shape.n_stages)):
                done.add(row.pop(0))
                moved = True
    return [Fault(rank, row[0], STUCK) for rank, row in enumerate(rows) if row]


def _memory(schedule, limits, changes=None, over=lambda count, limit: count > limit):
    for rank, row in enumerate(schedule if limits else []):
        count = 0
        for step in row:
            count += (changes or {"F": 1, "B": -1, "I": 0, "W": -1})[step.kind]
            if over(count, limits[rank]):
                return Fault(rank, step, TOO_MANY)
    return None


@mutant("rank without a list")
def counts_on_a_list_for_each(schedule, shape, limits=None):
    for rank in range(shape.n_ranks):
        fault = _rank_fault(schedule[rank], rank, shape)
        if fault:
            return fault
    return next(iter(_left(schedule, shape)), None) or _memory(schedule, limits)


@mutant("ranks without a list")
def only_the_lists_there_are(schedule, shape, limits=None):
    own = next((fault for rank, row in enumerate(schedule) if (fault := _rank_fault(row, rank, shape))), None)
    if own or len(schedule) < shape.n_ranks:
        return own
    return next(iter(_left(schedule, shape)), None) or _memory(schedule, limits)


@mutant("endless")
def waits_for_ever(schedule, shape, limits=None):
    fault = _own(schedule, shape)
    if fault:
        return fault
    done, rows = set(), [list(row) for row in schedule]
    while any(rows):
        for row in rows:
            if row and done.issuperset(needed(row[0], shape.n_stages)):
                done.add(row.pop(0))
    return _memory(schedule, limits)


@mutant("ranks' own faults not seen")
def only_between_ranks(schedule, shape, limits=None):
    return next(iter(_left(schedule, shape)), None) or _memory(schedule, limits)


@mutant("deadlocks not seen")
def only_own_lists(schedule, shape, limits=None):
    return _own(schedule, shape) or _memory(schedule, limits)


@mutant("memory not checked")
def any_memory(schedule, shape, limits=None):
    return _own(schedule, shape) or next(iter(_left(schedule, shape)), None)


@mutant("highest rank named")
def last_one(schedule, shape, limits=None):
    return _own(schedule, shape) or next(iter(_left(schedule, shape)[::-1]), None) or _memory(schedule, limits)


@mutant("limit is allowed")
def below_the_limit(schedule, shape, limits=None):
    return _own(schedule, shape) or next(iter(_left(schedule, shape)), None) or _memory(
        schedule, limits, over=lambda count, limit: count >= limit)


@mutant("nothing goes")
def forwards_only(schedule, shape, limits=None):
    return _own(schedule, shape) or next(iter(_left(schedule, shape)), None) or _memory(
        schedule, limits, {"F": 1, "B": 0, "I": 0, "W": 0})


@mutant("gone at I")
def input_frees(schedule, shape, limits=None):
    return _own(schedule, shape) or next(iter(_left(schedule, shape)), None) or _memory(
        schedule, limits, {"F": 1, "B": -1, "I": -1, "W": 0})


@mutant("stuck before memory")
def memory_first(schedule, shape, limits=None):
    return _own(schedule, shape) or _memory(schedule, limits) or next(iter(_left(schedule, shape)), None)
