"""Explain a bad schedule: each rank's own faults, deadlocks between ranks, too much in flight."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.schedules import (
    IN_FLIGHT,
    Rows,
    as_rows,
    fault_of,
    memory_fault,
    own_fault,
    sentences,
    stuck_faults,
)
from grader.judging.exercise import VALUES, Case, Exercise, Slip
from utils.schedules.schedule import Fault, Shape

from .cases import make_cases

Limits = list[int] | None
Search = Callable[[Rows, Shape, Limits], Fault | None]


def _of_each_schedule(case: Case, search: Search) -> dict[str, Any]:
    return sentences({name: search(as_rows(rows), Shape(*shape), limits)
                      for name, (rows, shape, limits) in case.inputs[0]["schedules"].items()})


def _found_by(id: str, hint: str, search: Search) -> Slip:
    """What a wrong search finds."""
    return Slip(id, hint, lambda case, rank, right: _of_each_schedule(case, search))


def _stuck(rows: Rows, shape: Shape) -> Fault | None:
    return next(iter(stuck_faults(rows, shape)), None)


def _counted(rows: Rows, shape: Shape, limits: Limits, **changes: int) -> Fault | None:
    """With other changes of what is in flight."""
    return fault_of(rows, shape) or memory_fault(rows, limits, IN_FLIGHT | changes)


EXERCISE = Exercise(
    title="Explain a bad schedule",
    parameters=("schedule", "shape", "limits"),
    make_cases=make_cases,
    oracle=lambda case: [_of_each_schedule(case, fault_of)],
    points={VALUES: 4},
    slips=(
        _found_by("ranks' own faults not seen", "Faults within one rank's list pass: ask rank_fault for every rank first.",
                  lambda rows, shape, limits: _stuck(rows, shape) or memory_fault(rows, limits)),
        _found_by("ranks without a list", "A schedule with fewer lists than ranks passes: all steps of such a rank are "
                                          "MISSING.",
                  lambda rows, shape, limits: fault_of(rows, shape, limits) if len(rows) == shape.n_ranks else None),
        _found_by("stuck before memory", "A schedule that cannot run is STUCK, whatever it would hold: look at memory last.",
                  lambda rows, shape, limits: own_fault(rows, shape) or memory_fault(rows, limits) or _stuck(rows, shape)),
        _found_by("deadlocks not seen", "A schedule that can never run passes: let all ranks go as far as they can, again "
                                        "and again, and look who is left.",
                  lambda rows, shape, limits: own_fault(rows, shape) or memory_fault(rows, limits)),
        _found_by("gone at I", "With the backward in two pieces the activations go at W, not at I: the weights' gradients "
                               "need them.", lambda rows, shape, limits: _counted(rows, shape, limits, I=-1, W=0)),
        _found_by("memory not checked", "More in flight than the limits allow passes: count forwards up and backwards down, "
                                        "rank by rank.", lambda rows, shape, limits: fault_of(rows, shape)),
        _found_by("highest rank named", "Of the ranks that are stuck the lowest one is to be named.",
                  lambda rows, shape, limits: own_fault(rows, shape) or max(
                      stuck_faults(rows, shape), default=memory_fault(rows, limits))),
        _found_by("limit is allowed", "As many in flight as the limit says are allowed: only more are TOO_MANY.",
                  lambda rows, shape, limits: fault_of(rows, shape, limits and [limit - 1 for limit in limits])),
        _found_by("nothing goes", "A backward takes its micro-batch out of flight: count down as well.",
                  lambda rows, shape, limits: _counted(rows, shape, limits, B=0, W=0)),
    ),
)
