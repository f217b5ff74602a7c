"""Rows per second of a pipeline against the batch, its limit, and the rows in flight on rank 0 in both orders."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import counted, each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.exercises.shared.right_orders import gpipe, one_f_one_b
from grader.exercises.technique.schedules import makespan_of, peaks
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

Four = tuple[float, float, float, float]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(4, 8, 2, 0.06), (8, 3, 4, 0.05), (1, 3, 2, 0.5), (4, 1, 8, 0.1),
             (draw.integer(5, 9), draw.integer(10, 30), draw.integer(2, 5), 0.25)]
    if grading:
        sizes += [(draw.integer(2, 16), draw.integer(1, 64), draw.integer(1, 8), draw.integer(1, 50) / 64) for _ in range(3)]
    return [single(f"{counted(p, 'stage')}, batch of {counted(m * rows, 'row')} in micro-batches of {rows}",
                   n_stages=p, n_rows=m * rows, micro_rows=rows, micro_s=micro_s) for p, m, rows, micro_s in sizes]


def _simulated(inputs: dict[str, Any]) -> Four:
    """By schedules with times: the limit is the rate at which further micro-batches are done."""
    p, n_rows, rows, micro_s = inputs.values()
    m = n_rows // rows
    times = {"F": micro_s / 3, "B": 2 * micro_s / 3}
    step_s, longer_s = (makespan_of(gpipe(p, count), p, times) for count in (m, m + 1))
    in_flight = (float(rows * peaks(order(p, m))[0]) for order in (gpipe, one_f_one_b))
    return n_rows / step_s, rows / (longer_s - step_s), *in_flight


def _place(place: int, id: str, hint: str, wrong: Callable[[int, int, int, float], float]) -> Slip:
    """Only the number at this place is wrong: wrong(stages, micro-batches, rows of one, seconds of one)."""

    def result(case: Case, rank: int, right: list[Four]) -> Four:
        p, n_rows, rows, micro_s = case.inputs[rank].values()
        found = wrong(p, n_rows // rows, rows, micro_s)
        return tuple(float(found) if number == place else value for number, value in enumerate(right[rank]))

    return Slip(id, hint, result)


def _all_of(id: str, hint: str, wrong: Callable[[Four, int], Four]) -> Slip:
    """wrong(the right numbers, rows of a micro-batch)"""
    return Slip(id, hint, lambda case, rank, right: wrong(right[rank], case.inputs[rank]["micro_rows"]))


EXERCISE = Exercise(
    title="Throughput against the batch",
    forbidden=FORMULAS,
    parameters=("n_stages", "n_rows", "micro_rows", "micro_s"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _simulated(case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        _place(0, "no bubble", "The first number has no bubble in it, so it equals the limit. A step takes the ideal time "
                               "plus the bubble, m + p − 1 times micro_s.", lambda p, m, rows, s: rows / s),
        _place(0, "one too many", "The bubble is p − 1 times micro_s, not p times: the micro-batch also needs its time on "
                                  "the stage itself, and that is part of the ideal time.",
               lambda p, m, rows, s: m * rows / ((m + p) * s)),
        _place(0, "one stage at a time", "This step lets one stage work at a time. The stages overlap: a step takes m + p − "
                                         "1 times micro_s, not m · p times.", lambda p, m, rows, s: rows / (p * s)),
        _place(0, "rows for micro-batches", "The step's time counts rows where it should count micro-batches: there are "
                                            "n_rows / micro_rows of them.",
               lambda p, m, rows, s: m * rows / ((m * rows + p - 1) * s)),
        _place(0, "rows of one micro-batch", "The whole batch is done in a step, not one micro-batch: n_rows belongs above "
                                             "the line.", lambda p, m, rows, s: rows / ((m + p - 1) * s)),
        _all_of("micro-batches per second", "The first two numbers count micro-batches per second. A micro-batch has "
                                            "micro_rows rows.",
                lambda right, rows: (right[0] / rows, right[1] / rows, *right[2:])),
        _place(0, "bubble twice", "The bubble is counted twice: micro_s is the time of a micro-batch's forward and backward "
                                  "pass together, so the bubble is p − 1 times micro_s.",
               lambda p, m, rows, s: m * rows / ((m + 2 * p - 2) * s)),
        _all_of("seconds per row", "The first two numbers are seconds per row. They are to be rows per second.",
                lambda right, rows: (1 / right[0], 1 / right[1], *right[2:])),
        _place(1, "limit of all stages", "The limit is too high: p stages work at once, but each row must pass all of them. "
                                         "In the long run one micro-batch is done per micro_s.",
               lambda p, m, rows, s: p * rows / s),
        _place(1, "limit without overlap", "The limit is too low: the next micro-batch is done micro_s after this one, and "
                                           "need not wait until this one has passed all stages.",
               lambda p, m, rows, s: rows / (p * s)),
        _place(1, "limit grows with the batch", "The limit is a property of the pipeline: it does not depend on n_rows. In "
                                                "the long run micro_rows rows are done per micro_s.",
               lambda p, m, rows, s: m * rows / s),
        _all_of("in flight in micro-batches", "The last two numbers count micro-batches. They are to be rows: multiply by "
                                              "micro_rows.",
                lambda right, rows: (*right[:2], right[2] / rows, right[3] / rows)),
        _all_of("orders swapped", "The last two numbers are swapped: GPipe has the whole batch in flight, and comes first.",
                lambda right, rows: (*right[:2], right[3], right[2])),
        _place(3, "fewer than stages", "With fewer micro-batches than stages, 1F1B can't have p of them in flight: there "
                                       "are only m.", lambda p, m, rows, s: p * rows),
        _place(3, "warm-up only", "After its p − 1 warm-up forwards rank 0 makes one more forward before its first "
                                  "backward: p micro-batches are in flight.", lambda p, m, rows, s: min(p - 1, m) * rows),
    ),
)
