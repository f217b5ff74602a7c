"""Explain a bad schedule: each rank's own faults, deadlocks between ranks, too much in flight."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from grader.exercises.shared import right_orders
from grader.exercises.shared.right_faults import own_fault, stuck_fault
from grader.exercises.technique.faults import sentences
from grader.exercises.technique.schedules import IN_FLIGHT, peaks
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.schedules.faults import TOO_MANY
from utils.schedules.schedule import Fault, Schedule, Shape, Step, parse_schedule

Limits = list[int] | None
Look = Callable[[Schedule, Shape, Limits], Fault | None]


def _limits(shape: Shape) -> list[int]:
    return [min(shape.n_stages - rank, shape.n_micro) for rank in range(shape.n_ranks)]


def _one_rank_cases(draw: Draw, p: int, m: int) -> dict[str, tuple]:
    """Faults in one rank's own list, and limits."""
    shape, right, some = Shape(p, p, m), right_orders.one_f_one_b(p, m), draw.integer(1, p - 1)
    gpipe = right_orders.gpipe(p, m)

    def spoilt(change: Callable[[list[Step]], list[Step]], *ranks: int) -> Schedule:
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
        "a list too many": ([*right, [Step("F", 0, p)]], shape, None),
    }


def _between_ranks_cases(draw: Draw) -> dict[str, tuple]:
    """Lists that are in order each, and cannot run together, or can."""
    two, three = Shape(2, 2, 2), Shape(3, 3, 3)
    chunks, split = right_orders.interleaved(2, 2, 4), right_orders.zero_bubble(3, 5)
    late = [sorted(row, key=lambda step: step.kind == "W") for row in split]
    return {
        "one by one against all first": (parse_schedule("F0 B0 F1 B1", "F0 F1 B0 B1"), two, None),
        "all first against one by one": (parse_schedule("F0 F1 B0 B1", "F0 B0 F1 B1"), two, None),
        "crossed": (parse_schedule("F0 F1 B1 B0", "F1 F0 B0 B1"), two, None),
        "crossed backwards, in time": (parse_schedule("F0 F1 B1 B0", "F0 F1 B0 B1"), two, None),
        "stuck, and over the limit": (parse_schedule("F0 B0 F1 B1", "F0 F1 B0 B1"), two, [1, 1]),
        "most in flight after a backward": (parse_schedule("F0 B0 F1 F2 F3 B1 B2 B3"), Shape(1, 1, 4), [2]),
        "the last rank turns round": (
            parse_schedule("F0 F1 B0 F2 B1 B2", "F0 F1 B0 F2 B1 B2", "F2 F1 F0 B0 B1 B2"), three, None),
        "the middle one turns round": (
            parse_schedule("F0 F1 F2 B0 B1 B2", "F0 F1 B1 B0 F2 B2", "F0 B0 F1 B1 F2 B2"), three, None),
        "one by one, on 4 ranks": (parse_schedule(*["F0 B0 F1 B1"] * 4), Shape(4, 4, 2), None),  # more rounds than steps
        "interleaved, one by one": (parse_schedule(*(
            " ".join(f"F{m}.{r} F{m}.{r + 3} B{m}.{r + 3} B{m}.{r}" for m in range(2)) for r in range(3))),
            Shape(3, 6, 2), None),  # more rounds than ranks times micro-batches
        "interleaved": (chunks, Shape(2, 4, 4), peaks(chunks)),
        "interleaved, with less memory": (chunks, Shape(2, 4, 4), [peak - 1 for peak in peaks(chunks)]),
        "interleaved, chunks the wrong way round": (
            parse_schedule("F0.2 F1.2 F0.0 F1.0 B0.2 B1.2 B0.0 B1.0", "F0.1 F1.1 F0.3 F1.3 B0.3 B1.3 B0.1 B1.1"),
            Shape(2, 4, 2), None),
        "interleaved, the first chunk backwards too soon": (
            parse_schedule("F0.0 F0.2 B0.2 B0.0", "F0.1 B0.1 F0.3 B0.3"), Shape(2, 4, 1), None),
        "zero bubble": (split, Shape(3, 3, 5, "FIW"), peaks(split)),
        "zero bubble, weights last": (late, Shape(3, 3, 5, "FIW"), peaks(split)),
        "both kinds mixed": ([split[0], right_orders.one_f_one_b(3, 5)[1], split[2]], Shape(3, 3, 5, "FIW"), None),
    }


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    groups = {f"{p} ranks": _one_rank_cases(draw, p, draw.integer(p + 1, 7)) for p in (2, 4)}
    groups["between ranks"] = _between_ranks_cases(draw)
    if grading:
        groups["3 ranks"] = _one_rank_cases(draw, 3, draw.integer(4, 8))
    return [Case(name, ({"schedules": schedules},)) for name, schedules in groups.items()]


# ── the first fault, and wrong ways to look for it ──


def _own(schedule: Schedule, shape: Shape, limits: Limits) -> Fault | None:
    return own_fault(schedule, shape)


def _stuck(schedule: Schedule, shape: Shape, limits: Limits, pick: Callable = min) -> Fault | None:
    return stuck_fault(schedule, shape, pick)


def _memory(schedule: Schedule, shape: Shape, limits: Limits, changes: dict[str, int] = IN_FLIGHT) -> Fault | None:
    """The first step that puts more in flight than its rank may have; None without limits."""
    for rank, steps in enumerate(schedule if limits else ()):
        for step, count in zip(steps, accumulate(changes[step.kind] for step in steps), strict=True):
            if count > limits[rank]:
                return Fault(rank, step, TOO_MANY)
    return None


def _less_memory(schedule: Schedule, shape: Shape, limits: Limits) -> Fault | None:
    return _memory(schedule, shape, limits and [limit - 1 for limit in limits])


def _first(looks: Sequence[Look], inputs: tuple[Schedule, Shape, Limits]) -> Fault | None:
    return next(filter(None, (look(*inputs) for look in looks)), None)


def _found(case: Case, *looks: Look) -> dict[str, Any]:
    """Of each schedule the fault that is found when these looks are taken one after the other."""
    return sentences({name: _first(looks, inputs) for name, inputs in case.inputs[0]["schedules"].items()})


def _short_ones_pass(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    short = [name for name, (schedule, shape, _) in case.inputs[0]["schedules"].items() if len(schedule) < shape.n_ranks]
    return right[rank] | dict.fromkeys(short)


def _stuck_backwards_of_chunks_pass(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    return right[rank] | {name: None for name, (schedule, shape, limits) in case.inputs[0]["schedules"].items()
                          if shape.n_stages > shape.n_ranks and not own_fault(schedule, shape)
                          and (fault := _stuck(schedule, shape, limits)) and fault.step.kind == "B"}


def _found_by(id: str, hint: str, *looks: Look) -> Slip:
    return Slip(id, hint, lambda case, rank, right: _found(case, *looks))


EXERCISE = Exercise(
    title="Explain a bad schedule",
    parameters=("schedule", "shape", "limits"),
    make_cases=_cases,
    oracle=lambda case: [_found(case, _own, _stuck, _memory)],
    points={VALUES: 4},
    slips=(
        _found_by("ranks' own faults not seen", "Faults within one rank's list pass: ask rank_fault for every rank first.",
                  _stuck, _memory),
        Slip("ranks without a list", "A schedule with fewer lists than ranks passes: all steps of such a rank are MISSING.",
             _short_ones_pass),
        Slip("as many stages as ranks", "A rank may have several stages, and then stage n_ranks − 1 is not the last one: "
                                        "its backward waits as well. Ask dependencies(step, shape.n_stages).",
             _stuck_backwards_of_chunks_pass),
        _found_by("stuck before memory", "A schedule that cannot run is STUCK, whatever it would hold: look at memory last.",
                  _own, _memory, _stuck),
        _found_by("deadlocks not seen", "A schedule that can never run passes: let all ranks go as far as they can, again "
                                        "and again, and look who is left.", _own, _memory),
        _found_by("gone at I", "With the backward in two halves the activations go at W, not at I: the weights' gradients "
                               "need them.", _own, _stuck, partial(_memory, changes=IN_FLIGHT | {"I": -1, "W": 0})),
        _found_by("memory not checked", "More in flight than the limits allow passes: count forwards up and backwards down, "
                                        "rank by rank. (And return early only with a fault.)", _own, _stuck),
        _found_by("highest rank named", "Of the ranks that are stuck the lowest one is to be named.",
                  _own, partial(_stuck, pick=max), _memory),
        _found_by("limit is allowed", "As many in flight as the limit says are allowed: only more are TOO_MANY.",
                  _own, _stuck, _less_memory),
        _found_by("nothing goes", "After its backward a micro-batch is no longer in flight: count down as well.",
                  _own, _stuck, partial(_memory, changes=IN_FLIGHT | {"B": 0, "W": 0})),
    ),
)
