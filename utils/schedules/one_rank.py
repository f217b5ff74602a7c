"""The first search for faults in a schedule: it looks at the list of one rank alone."""

from collections.abc import Callable, Sequence

from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Shape, Step


def rank_fault(steps: Sequence[Step], rank: int, shape: Shape,
               dependencies: Callable[[Step, int], Sequence[Step]]) -> Fault | None:
    """The first impossible, repeated, missing or too early step in a rank's list; None if there is none.

    dependencies(step, n_stages): the steps whose results a step uses directly.
    Of several missing steps it names the one with the lowest stage, then micro-batch, then kind in the order of shape.kinds.
    """
    stages = range(rank, shape.n_stages, shape.n_ranks) if rank < shape.n_ranks else ()
    for step in steps:
        if step.kind not in shape.kinds:
            return Fault(rank, step, UNKNOWN_KIND)
        if step.micro not in range(shape.n_micro):
            return Fault(rank, step, NO_SUCH_MICRO)
        if step.stage not in stages:
            return Fault(rank, step, NOT_THIS_RANKS)
    for position, step in enumerate(steps):
        if step in steps[:position]:
            return Fault(rank, step, REPEATED)
    for step in (Step(kind, micro, stage) for stage in stages for micro in range(shape.n_micro) for kind in shape.kinds):
        if step not in steps:
            return Fault(rank, step, MISSING)
    for position, step in enumerate(steps):
        if any(need.stage in stages and need not in steps[:position] for need in dependencies(step, shape.n_stages)):
            return Fault(rank, step, TOO_EARLY)
    return None
