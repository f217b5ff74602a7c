"""Schedules for Pipeline to run, with weights and micro-batches."""

from collections.abc import Sequence

import torch

from grader.exercises.shared import right_orders
from grader.exercises.shared.cases import group_case
from grader.exercises.technique.schedules import Rows
from grader.judging.exercise import Case, Draw
from utils.schedules.schedule import Shape, parse_schedule, shape_of

ROWS, DIM = 2, 3


def _inputs(draw: Draw, rows: Rows, shape: Shape | None = None, steps: int = 2, dtype=torch.float64) -> list[dict]:
    shape = shape or shape_of(rows)

    def number(*size: int) -> torch.Tensor:
        return (draw.tensor(*size, dtype=torch.float64) / 50).to(dtype)

    weights = [[number(DIM, DIM), number(DIM)] for _ in range(shape.n_stages)]
    xs = [[torch.cat([number(ROWS, DIM), torch.full((ROWS, 1), float(micro), dtype=dtype)], 1)
           for micro in range(shape.n_micro)] for _ in range(steps)]
    ys = [[number(ROWS, DIM) for _ in range(shape.n_micro)] for _ in range(steps)]
    return [{"schedule": [[tuple(step) for step in row] for row in rows], "shape": tuple(shape), "weights": weights,
             "xs": xs, "ys": ys} for _ in range(shape.n_ranks)]


def make_cases(draw: Draw, grading: bool) -> Sequence[Case]:
    turned = parse_schedule("F0 F1 F2 B2 B0 B1", "F0 F1 F2 B0 B2 B1")  # messages wanted in another order than they are sent
    schedules = {
        "1 rank, 2 stages": right_orders.interleaved(1, 2, 3),
        "GPipe on 3": right_orders.gpipe(3, 4),
        "1F1B on 4": right_orders.one_f_one_b(4, 6),
        "1F1B turned round on 2": turned,
        "interleaved on 2": right_orders.interleaved(2, 2, 4),
        "zero bubble on 3": right_orders.zero_bubble(3, 5),
    }
    if grading:
        schedules["1 rank"] = right_orders.one_f_one_b(1, 3)
        schedules["1F1B on 5"] = right_orders.one_f_one_b(5, 7)
    cases = [Case(name, tuple(_inputs(draw, rows))) for name, rows in schedules.items()]
    cases.append(Case("float32, 1F1B on 2", tuple(_inputs(draw, right_orders.one_f_one_b(2, 5), dtype=torch.float32))))
    cases.append(group_case(lambda n: _inputs(draw, right_orders.one_f_one_b(n, 4), steps=1), "1F1B"))
    bad = parse_schedule("F0 B0 F1 B1", "F0 F1 B0 B1")
    return [*cases, Case("a schedule that cannot run", tuple(_inputs(draw, bad, steps=1)))]
