"""Explain a bad schedule: each rank's own faults, deadlocks between ranks, too much in flight."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from grader.exercises.shared import right_orders
from grader.exercises.shared.right_faults import fault_of
from grader.exercises.technique.faults import sentences
from grader.exercises.technique.schedules import IN_FLIGHT, peaks
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.schedules.faults import TOO_MANY
from utils.schedules.schedule import Fault, Schedule, Shape, Step, parse_schedule


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


def _memory_fault(schedule: Schedule, limits: list[int] | None) -> Fault | None:
    """The first step that puts more in flight than its rank may have; None without limits."""
    for rank, steps in enumerate(schedule if limits else ()):
        for step, count in zip(steps, accumulate(IN_FLIGHT[step.kind] for step in steps), strict=True):
            if count > limits[rank]:
                return Fault(rank, step, TOO_MANY)
    return None


def _faults(case: Case) -> dict[str, Any]:
    """The first fault of each schedule."""
    return sentences({name: fault_of(schedule, shape) or _memory_fault(schedule, limits)
                      for name, (schedule, shape, limits) in case.inputs[0]["schedules"].items()})


EXERCISE = Exercise(
    title="Explain a bad schedule",
    parameters=("schedule", "shape", "limits"),
    make_cases=_cases,
    oracle=lambda case: [_faults(case)],
    points={VALUES: 4},
)
