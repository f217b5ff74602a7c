"""Rows per second of a pipeline against the batch, its limit, and the rows in flight on rank 0 in both orders."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import counted, each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.exercises.shared.right_orders import gpipe, one_f_one_b
from grader.exercises.technique.schedules import makespan_of, peaks
from grader.judging.exercise import VALUES, Case, Draw, Exercise

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


EXERCISE = Exercise(
    title="Throughput against the batch",
    forbidden=FORMULAS,
    parameters=("n_stages", "n_rows", "micro_rows", "micro_s"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _simulated(case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
)
