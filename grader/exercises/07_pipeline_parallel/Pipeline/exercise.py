"""One executor for all schedules: any valid one, run with real tensors, in its own order and memory."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared import right_orders
from grader.exercises.shared.cases import each_rank, group_case
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.right_faults import fault_of
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise
from utils.schedules.schedule import Schedule, parse_schedule, shape_of

from .call import floating, squared_error
from .technique import refusal, schedule_in, shape_in

ROWS, DIM = 2, 3


def _inputs(draw: Draw, schedule: Schedule, steps: int = 2, dtype=torch.float64, tokens: bool = False) -> list[dict]:
    shape = shape_of(schedule)

    def number(*size: int) -> torch.Tensor:
        return (draw.tensor(*size, dtype=torch.float64) / 50).to(dtype)

    weights = [[number(DIM, DIM), number(DIM)] for _ in range(shape.n_stages)]
    xs = [[torch.cat([number(ROWS, DIM), torch.full((ROWS, 1), float(micro), dtype=dtype)], 1)
           for micro in range(shape.n_micro)] for _ in range(steps)]
    ys = [[number(ROWS, DIM) for _ in range(shape.n_micro)] for _ in range(steps)]
    if tokens:
        xs = [[torch.cat([(x[:, :-1] * 50).round(), x[:, -1:]], 1).long() for x in each] for each in xs]
    return [{"schedule": schedule, "shape": shape, "weights": weights, "xs": xs, "ys": ys} for _ in range(shape.n_ranks)]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    turned = parse_schedule("F0 F1 F2 B2 B0 B1", "F0 F2 F1 B0 B1 B2")  # messages wanted in another order than they are sent
    schedules = {
        "1 rank, 2 stages": right_orders.interleaved(1, 2, 3),
        "GPipe on 3": right_orders.gpipe(3, 4),
        "1F1B on 4": right_orders.one_f_one_b(4, 6),
        "1F1B turned round on 2": turned,
        "interleaved on 2": right_orders.interleaved(2, 2, 4),
        "3 stages on 2 ranks": parse_schedule("F0.0 F1.0 F0.2 B0.2 F1.2 B1.2 B0.0 B1.0", "F0.1 F1.1 B0.1 B1.1"),
        "zero bubble on 3": right_orders.zero_bubble(3, 5),
    }
    if grading:
        schedules["1 rank"] = right_orders.one_f_one_b(1, 3)
        schedules["1F1B on 5"] = right_orders.one_f_one_b(5, 7)
    cases = [Case(name, tuple(_inputs(draw, schedule, tokens=name == "GPipe on 3"))) for name, schedule in schedules.items()]
    cases.append(Case("float32, 1F1B on 2", tuple(_inputs(draw, right_orders.one_f_one_b(2, 5), dtype=torch.float32))))
    cases.append(group_case(lambda n: _inputs(draw, right_orders.one_f_one_b(n, 4), steps=1), "1F1B"))
    bad = parse_schedule("F0 B0 F1 B1", "F0 F1 B0 B1")
    return [*cases, Case("a schedule that cannot run", tuple(_inputs(draw, bad, steps=1)))]


# ── one process with all stages ──


def _loss(stages: list[list[Tensor]], x: Tensor, y: Tensor) -> Tensor:
    x = floating(x, stages[0][0].dtype)
    h = x[:, :-1]
    for weight, bias in stages:
        h = torch.tanh(h @ weight + bias)
    return squared_error(torch.cat([h, x[:, -1:]], 1), y)


def _own_stages(case: Case, rank: int) -> range:
    shape = shape_in(case, rank)
    return range(case.group_rank(rank), shape.n_stages, shape.n_ranks)


def _losses(case: Case, rank: int) -> list[list[Tensor]]:
    """Of each step and micro-batch; of no micro-batch but on the rank of the last stage."""
    inputs, stages = case.inputs[rank], case.inputs[rank]["weights"]
    if len(stages) - 1 not in _own_stages(case, rank):
        return [[] for _ in inputs["xs"]]
    return [[_loss(stages, x, y) for x, y in zip(xs, ys, strict=True)]
            for xs, ys in zip(inputs["xs"], inputs["ys"], strict=True)]


def _gradients(case: Case, rank: int) -> dict[str, Tensor]:
    """Of the stages of this rank: those of each step's mean loss, added up."""
    inputs, added = case.inputs[rank], {}
    for stage in _own_stages(case, rank):
        stages = [[tensor.clone().requires_grad_() for tensor in both] for both in inputs["weights"]]
        for xs, ys in zip(inputs["xs"], inputs["ys"], strict=True):
            for x, y in zip(xs, ys, strict=True):
                (_loss(stages, x, y) / len(xs)).backward()
        for name, tensor in zip(("weight", "bias"), stages[stage], strict=True):
            added[f"{stage}.inner.{name}"] = tensor.grad
    return added


def _expected(case: Case, rank: int) -> dict[str, Any]:
    fault = fault_of(schedule_in(case, rank), shape_in(case, rank))
    if fault:
        return refusal(str(fault))
    return {"losses": _losses(case, rank), "gradients": _gradients(case, rank)}


EXERCISE = Exercise(
    title="One executor for all schedules",
    parameters=("stages", "schedule", "shape", "loss_fn", "like", "group"),
    make_cases=_cases,
    trains=True,
    forbidden=("torch.distributed.pipelining",),
    oracle=each_rank(_expected),
    tolerance=TOLERANCE,
    points={VALUES: 4, TECHNIQUE: 4},
)
