"""What each step of a schedule needs, and the faults that a schedule has: the right answers."""

from utils.schedules.faults import STUCK
from utils.schedules.one_rank import rank_fault
from utils.schedules.schedule import Fault, Schedule, Shape, Step

# of each kind: (kind of a step that it needs, how many stages further on)
NEEDS = {"F": [("F", -1)], "B": [("F", 0), ("B", +1)], "I": [("F", 0), ("I", +1)], "W": [("I", 0)]}


def needs(step: Step, n_stages: int) -> list[Step]:
    return [Step(kind, step.micro, step.stage + further) for kind, further in NEEDS[step.kind]
            if 0 <= step.stage + further < n_stages]


def own_fault(schedule: Schedule, shape: Shape) -> Fault | None:
    """The first fault within one rank's list; a rank without a list does nothing."""
    lists = [*schedule, *([] for _ in range(shape.n_ranks - len(schedule)))]
    return next(filter(None, (rank_fault(steps, rank, shape, needs) for rank, steps in enumerate(lists))), None)


def stuck_fault(schedule: Schedule, shape: Shape) -> Fault | None:
    """When all ranks have gone as far as they can, the step at which the lowest of those that cannot finish stands."""
    done, waiting, moved = set(), [list(steps) for steps in schedule], True
    while moved:
        moved = False
        for steps in waiting:
            while steps and done.issuperset(needs(steps[0], shape.n_stages)):
                done.add(steps.pop(0))
                moved = True
    return min((Fault(rank, steps[0], STUCK) for rank, steps in enumerate(waiting) if steps), default=None)


def fault_of(schedule: Schedule, shape: Shape) -> Fault | None:
    """The first thing that is wrong with a schedule, within a rank or between ranks."""
    return own_fault(schedule, shape) or stuck_fault(schedule, shape)
