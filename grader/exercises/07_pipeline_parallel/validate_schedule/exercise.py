"""Explain a bad schedule: each rank's own faults, deadlocks between ranks, too much in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.evidence.evidence import RAISED
from grader.exercises.shared import right_orders
from grader.exercises.shared import schedule_oracle as oracle
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import raised
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, STUCK, TOO_EARLY, TOO_MANY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Shape, Step, written

from ..rank_fault.exercise import said, wrong_as

OWN = (MISSING, REPEATED, TOO_EARLY, NO_SUCH_MICRO, NOT_THIS_RANKS, UNKNOWN_KIND)


def _limits(shape: Shape) -> list[int]:
    return [min(shape.n_stages - rank, shape.n_micro) for rank in range(shape.n_ranks)]


def _one_rank_cases(draw: Draw, p: int, m: int) -> dict[str, tuple]:
    """Faults in one rank's own list, and limits."""
    shape, right, some = Shape(p, p, m), right_orders.one_f_one_b(p, m), draw.integer(1, p - 1)
    gpipe = right_orders.gpipe(p, m)

    def spoilt(change: Callable[[list[Step]], list[Step]], *ranks: int) -> list[list[Step]]:
        return [change(row) if rank in ranks else row for rank, row in enumerate(right)]

    return {
        "1F1B": (right, shape, None),
        "1F1B within its memory": (right, shape, _limits(shape)),
        "1F1B, one less on a rank": (right, shape, [a - (r == some) for r, a in enumerate(_limits(shape))]),
        "GPipe": (gpipe, shape, None),
        "GPipe within the memory of 1F1B": (gpipe, shape, _limits(shape)),
        "GPipe with memory for all": (gpipe, shape, [m] * p),
        "two ranks without their last": (spoilt(lambda row: row[:-1], some - 1, some), shape, None),
        "one rank's last twice": (spoilt(lambda row: row + row[-1:], some), shape, _limits(shape)),
        "backward first on a rank": (spoilt(lambda row: sorted(row, key=lambda step: step.kind == "F"), some), shape, None),
        "a micro-batch too many": (spoilt(lambda row: [*row, Step("F", m, some)], some), shape, None),
        "a rank without a list": (right[:-1], shape, None),
        "nothing at all": ([], shape, None),
    }


def _between_ranks_cases(draw: Draw) -> dict[str, tuple]:
    """Lists that are in order each, and cannot run together, or can."""
    two, three = Shape(2, 2, 2), Shape(3, 3, 3)
    chunks, split = right_orders.interleaved(2, 2, 4), right_orders.zero_bubble(3, 5)
    late = [sorted(row, key=lambda step: step.kind == "W") for row in split]
    return {
        "one by one against all first": (written("F0 B0 F1 B1", "F0 F1 B0 B1"), two, None),
        "all first against one by one": (written("F0 F1 B0 B1", "F0 B0 F1 B1"), two, None),
        "crossed": (written("F0 F1 B1 B0", "F1 F0 B0 B1"), two, None),
        "crossed backwards, in time": (written("F0 F1 B1 B0", "F0 F1 B0 B1"), two, None),
        "stuck, and over the limit": (written("F0 B0 F1 B1", "F0 F1 B0 B1"), two, [1, 1]),
        "the last rank turns round": (written("F0 F1 B0 F2 B1 B2", "F0 F1 B0 F2 B1 B2", "F2 F1 F0 B0 B1 B2"), three, None),
        "the middle one turns round": (written("F0 F1 F2 B0 B1 B2", "F0 F1 B1 B0 F2 B2", "F0 B0 F1 B1 F2 B2"), three, None),
        "interleaved": (chunks, Shape(2, 4, 4), oracle.peaks(chunks)),
        "interleaved, with less memory": (chunks, Shape(2, 4, 4), [peak - 1 for peak in oracle.peaks(chunks)]),
        "interleaved, chunks the wrong way round": (
            written("F0.2 F1.2 F0.0 F1.0 B0.2 B1.2 B0.0 B1.0", "F0.1 F1.1 F0.3 F1.3 B0.3 B1.3 B0.1 B1.1"),
            Shape(2, 4, 2), None),
        "zero bubble": (split, Shape(3, 3, 5, "FIW"), oracle.peaks(split)),
        "zero bubble, weights last": (late, Shape(3, 3, 5, "FIW"), oracle.peaks(split)),
        "both kinds mixed": ([split[0], right_orders.one_f_one_b(3, 5)[1], split[2]], Shape(3, 3, 5, "FIW"), None),
    }


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    groups = {f"{p} ranks": _one_rank_cases(draw, p, draw.integer(p + 1, 7)) for p in (2, 4)}
    groups["between ranks"] = _between_ranks_cases(draw)
    if grading:
        groups["3 ranks"] = _one_rank_cases(draw, 3, draw.integer(4, 8))
    return [Case(name, ({"schedules": {what: ([[tuple(step) for step in row] for row in rows], tuple(shape), limits)
                                       for what, (rows, shape, limits) in schedules.items()}},))
            for name, schedules in groups.items()]


def _faults(case: Case, **way: Any) -> dict[str, Any]:
    return _each(case, lambda rows, shape, limits: oracle.fault_of(rows, shape, limits, **way))


def _each(case: Case, explain: Callable[[oracle.Rows, Shape, Any], Fault | None]) -> dict[str, Any]:
    found = {what: explain(oracle.as_rows(rows), Shape(*shape), limits)
             for what, (rows, shape, limits) in case.inputs[0]["schedules"].items()}
    return {what: fault and str(fault) for what, fault in found.items()}


def _reading(case: Case, found: Any) -> Any:
    return {what: said(fault) for what, fault in found.items()}


def _as(**way: Any) -> Callable[[Look], bool]:
    return wrong_as(_reading, lambda case: _faults(case, **way))


def _highest(rows: oracle.Rows, shape: Shape, limits: Any) -> Fault | None:
    fault = oracle.fault_of(rows, shape, limits)
    return Fault(*max(oracle.standing(rows, shape.n_stages)), STUCK) if fault and fault.why == STUCK else fault


def _one_less(rows: oracle.Rows, shape: Shape, limits: Any) -> Fault | None:
    return oracle.fault_of(rows, shape, limits and [limit - 1 for limit in limits])


def _total(rows: oracle.Rows, shape: Shape, limits: Any) -> Fault | None:
    """Forwards are counted, and nothing ever goes."""
    fault = oracle.fault_of(rows, shape)
    if fault or not limits:
        return fault
    for rank, steps in enumerate(rows):
        forwards = [step for step in steps if step.kind == "F"]
        if len(forwards) > limits[rank]:
            return Fault(rank, forwards[limits[rank]], TOO_MANY)
    return None


def _memory_first(rows: oracle.Rows, shape: Shape, limits: Any) -> Fault | None:
    fault = oracle.fault_of(rows, shape, limits)
    rank_faults = any(oracle.rank_fault(row, r, shape) for r, row in enumerate(rows))
    over = oracle.fault_of(rows, shape, limits, without=(*OWN, STUCK)) if not rank_faults else None
    return over or fault


EXERCISE = Exercise(
    title="Explain a bad schedule",
    parameters=("schedule", "shape", "limits"),
    make_cases=_cases,
    oracle=lambda case: [_faults(case)],
    points={VALUES: 4},
    technique=Technique(
        reading=_reading,
        demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
        symptoms=(
        raised("list index out of range", "There may be fewer lists than ranks: what such a rank should do is MISSING.",
               "rank without a list"),
        Symptom("endless", "It never ends: when no rank has moved for a whole round, none ever will. Stop then.",
                lambda look: look.evidence.ending not in ("returned", RAISED)),
        Symptom("ranks' own faults not seen", "Faults within one rank's list pass: ask rank_fault for every rank first.",
                _as(without=OWN)),
        Symptom("ranks without a list", "A schedule with fewer lists than ranks passes: all steps of such a rank are "
                                        "MISSING.",
                wrong_as(_reading, lambda case: _each(case, lambda rows, shape, limits: oracle.fault_of(
                    rows, shape, limits) if len(rows) == shape.n_ranks else None))),
        Symptom("stuck before memory", "A schedule that cannot run is STUCK, whatever it would hold: look at memory last.",
                wrong_as(_reading, lambda case: _each(case, _memory_first))),
        Symptom("deadlocks not seen", "A schedule that can never run passes: let all ranks go as far as they can, again and "
                                      "again, and look who is left.", _as(without=(STUCK,))),
        Symptom("gone at I", "With the backward in two pieces the activations go at W, not at I: the weights' gradients "
                             "need them.", wrong_as(_reading, lambda case: _faults(case, weight_frees=False))),
        Symptom("memory not checked", "More in flight than the limits allow passes: count forwards up and backwards down, "
                                      "rank by rank.", _as(without=(TOO_MANY,))),
        Symptom("highest rank named", "Of the ranks that are stuck the lowest one is to be named.",
                wrong_as(_reading, lambda case: _each(case, _highest))),
        Symptom("limit is allowed", "As many in flight as the limit says are allowed: only more are TOO_MANY.",
                wrong_as(_reading, lambda case: _each(case, _one_less))),
        Symptom("nothing goes", "A backward takes its micro-batch out of flight: count down as well.",
                wrong_as(_reading, lambda case: _each(case, _total))),
    ),
    ),
)
