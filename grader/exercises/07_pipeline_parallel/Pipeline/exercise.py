"""One executor for all schedules: any valid one, run with real tensors, in its own order and memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.technique.schedules import fault_of
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Exercise, Slip

from .call import squared_error
from .cases import make_cases
from .technique import refusal, rows_in, shape_in

Counts = Callable[[int, int, int], bool]


def _stages(case: Case, rank: int) -> list[list[Tensor]]:
    return [[tensor.clone().requires_grad_() for tensor in both] for both in case.inputs[rank]["weights"]]


def _loss(stages: list[list[Tensor]], x: Tensor, y: Tensor) -> Tensor:
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


def _gradients(case: Case, rank: int, counts: Counts = lambda stage, step, micro: True) -> dict[str, Tensor]:
    """Of the stages of this rank: those of each step's mean loss, added over the micro-batches that count."""
    inputs, added = case.inputs[rank], {}
    for stage in _own_stages(case, rank):
        stages = _stages(case, rank)
        for step, (xs, ys) in enumerate(zip(inputs["xs"], inputs["ys"], strict=True)):
            for micro, (x, y) in enumerate(zip(xs, ys, strict=True)):
                if counts(stage, step, micro):
                    (_loss(stages, x, y) / len(xs)).backward()
        for name, tensor in zip(("weight", "bias"), stages[stage], strict=True):
            added[f"{stage}.inner.{name}"] = tensor.grad
    return added


def _expected(case: Case, rank: int) -> dict[str, Any]:
    """By one process with all stages."""
    fault = fault_of(rows_in(case, rank), shape_in(case, rank))
    if fault:
        return refusal(fault)
    return {"losses": _losses(case, rank), "gradients": _gradients(case, rank)}


# ── slips ──


def _runs(case: Case) -> bool:
    return fault_of(rows_in(case, 0), shape_in(case, 0)) is None


def _split(case: Case) -> bool:
    return "W" in shape_in(case, 0).kinds


def _wrong(id: str, hint: str, part: str, wrong: Callable[[Case, int, Any], Any],
           shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """One part of the result is wrong(case, rank, the right one)."""
    return Slip(id, hint, lambda case, rank, right: right[rank] | {part: wrong(case, rank, right[rank][part])},
                lambda case: _runs(case) and shows(case))


def _n_micro(case: Case, rank: int) -> int:
    return shape_in(case, rank).n_micro


def _times(gradients: dict[str, Tensor], factor: int) -> dict[str, Tensor]:
    return {name: gradient * factor for name, gradient in gradients.items()}


def _of_last_micro_batch(case: Case, rank: int, right: dict[str, Tensor]) -> dict[str, Tensor]:
    """The one that goes backward last on each stage."""
    row, last_step = rows_in(case, rank)[case.group_rank(rank)], len(case.inputs[rank]["xs"]) - 1
    last = {stage: micro for kind, micro, stage in row if kind in "BW"}
    return _gradients(case, rank, lambda stage, step, micro: (step, micro) == (last_step, last[stage]))


def _of_last_step(case: Case, rank: int, right: dict[str, Tensor]) -> dict[str, Tensor]:
    last_step = len(case.inputs[rank]["xs"]) - 1
    return _gradients(case, rank, lambda stage, step, micro: step == last_step)


EXERCISE = Exercise(
    title="One executor for all schedules",
    parameters=("stages", "schedule", "shape", "loss_fn", "like", "group"),
    make_cases=make_cases,
    oracle=each_rank(_expected),
    tolerance=TOLERANCE,
    points={VALUES: 4, TECHNIQUE: 4},
    slips=(
        _wrong("losses divided", "The losses that come back are divided by n_micro: divide what backward starts from, and "
                                 "return each micro-batch's own loss.", "losses",
               lambda case, rank, right: [[loss / _n_micro(case, rank) for loss in losses] for losses in right]),
        _wrong("sum for mean", "Gradients are n_micro times too large: they are to be those of the losses' mean, so each "
                               "micro-batch's loss counts 1/n_micro.", "gradients",
               lambda case, rank, right: _times(right, _n_micro(case, rank))),
        _wrong("last micro-batch only", "Gradients are those of the last micro-batch alone: they add up over micro-batches.",
               "gradients", _of_last_micro_batch),
        _wrong("last step only", "Gradients of earlier calls of step() are gone: they add to .grad.", "gradients",
               _of_last_step),
        _wrong("weights doubled", "With the backward in two pieces the weights' gradients are twice too large: I computes "
                                  "them already (a whole backward), and W once more.", "gradients",
               lambda case, rank, right: _times(right, 2), shows=_split),
    ),
)
