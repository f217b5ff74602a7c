"""Passes on a mesh: each replica's loss and gradients are those of one process with the same rows; nothing is reduced."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grader.calling.meshes import make_model, parts_on
from grader.exercises.shared.cases import each_rank, once_a_group
from grader.exercises.shared.meshes import in_words, lines_of, place_of, sizes_of
from grader.exercises.shared.trained import MODEL, gradients_by_use
from grader.judging.exercise import Case, Draw, Exercise, Slip

LENGTH = MODEL["length"]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """First one long axis each, in the order in which a mistake is found most easily."""
    shapes = [((2, 1, 1), 2), ((1, 3, 1), 4), ((1, 1, 2), 1), ((2, 2, 1), 3), ((2, 2, 2), 2)]
    shapes += [((1, 2, 2), 2), ((3, 1, 2), 1), ((1, 1, 1), 2)] * grading
    return [_case(draw, *shape) for shape in shapes]


def _case(draw: Draw, shape: tuple[int, int, int], n_micro: int) -> Case:
    sizes = sizes_of(shape)
    tokens, targets = (draw.tensor(sizes["dp"] * n_micro * 2, LENGTH, dtype=torch.int64).abs() for _ in range(2))
    inputs = {"model": MODEL | {"seed": draw.seed()}, "sizes": sizes, "lines": lines_of(sizes), "n_micro": n_micro,
              "tokens": tokens, "targets": targets}
    return Case(f"{in_words(sizes)}, {n_micro} micro-batch{'es' * (n_micro > 1)}", (inputs,) * math.prod(shape))


# ── one process ──


@once_a_group
def _rows(case: Case, rank: int, first: int, stop: int) -> tuple[Tensor, dict[str, Tensor]]:
    """The mean loss of some rows of the batch, and its gradients."""
    inputs = case.inputs[0]
    return gradients_by_use(make_model(inputs["model"]), inputs["tokens"][first:stop], inputs["targets"][first:stop],
                            inputs["sizes"]["pp"] > 1)


def _share(case: Case, rank: int, of: int | None = None, micro_batches: slice = slice(None)) -> list:
    """[(loss, gradients)] of the micro-batches of one replica's share, by default this rank's own."""
    inputs = case.inputs[rank]
    of = place_of(inputs["sizes"], rank)["dp"] if of is None else of
    each = len(inputs["tokens"]) // inputs["sizes"]["dp"] // inputs["n_micro"]
    firsts = [(of * inputs["n_micro"] + i) * each for i in range(inputs["n_micro"])]
    return [_rows(case, rank, first, first + each) for first in firsts[micro_batches]]


def _result(case: Case, rank: int, found: list, factor: float = 1.0, loss_factor: float | None = None) -> dict[str, Any]:
    """What a rank returns whose losses and gradients are the mean over its micro-batches, times a factor."""
    inputs = case.inputs[rank]
    sizes, m = inputs["sizes"], inputs["n_micro"]
    gradients = {name: factor * sum(g[name] for _, g in found) / m for name in found[0][1]}
    is_last = place_of(sizes, rank)["pp"] == sizes["pp"] - 1
    loss = (factor if loss_factor is None else loss_factor) * sum(loss for loss, _ in found) / m
    return {"loss": loss if is_last else torch.zeros((), dtype=torch.float64),
            "gradients": parts_on(rank, gradients, inputs["lines"], MODEL["layers"])}


def _right(case: Case, rank: int) -> dict[str, Any]:
    return _result(case, rank, _share(case, rank))


# ── slips ──


def _several(axis: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[0]["sizes"][axis] > 1


def _several_micro_batches(case: Case) -> bool:
    return case.inputs[0]["n_micro"] > 1


def _times_micro_batches(loss: bool, case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    m = case.inputs[rank]["n_micro"]
    return _result(case, rank, _share(case, rank), m, m if loss else 1.0)


def _last_micro_batch(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    found = _result(case, rank, _share(case, rank, micro_batches=slice(-1, None)))
    return {"loss": right[rank]["loss"], "gradients": found["gradients"]}


def _loss_everywhere(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    sizes = case.inputs[rank]["sizes"]
    line = next(line for line in case.inputs[rank]["lines"]["pp"] if rank in line)
    return right[rank] | {"loss": right[line[sizes["pp"] - 1]]["loss"]}


EXERCISE = Exercise(
    title="Micro-batches through the mesh",
    parameters=("stage", "n_micro", "mesh"),
    forbidden=("torch.distributed.tensor", "torch.distributed.pipelining"),
    make_cases=_cases,
    oracle=each_rank(_right),
    trains=True,
    tolerance=1e-6,
    timeout_s=30.0,
    points={"values": 2, "technique": 2},
    slips=(
        Slip("same share", "All replicas take the first share of the batch: a rank's place along dp says which one is its "
             "own.", lambda case, rank, right: _result(case, rank, _share(case, rank, of=0)), shows=_several("dp")),
        Slip("micro-batches summed", "Gradients and loss are as many times too large as there are micro-batches: the mean "
             "of the share is the mean of their m losses, so divide each by m before it goes backward.",
             partial(_times_micro_batches, True), shows=_several_micro_batches),
        Slip("gradients of a sum", "The loss is right, but gradients are as many times too large as there are "
             "micro-batches: divide each one's loss by m *before* it goes backward.", partial(_times_micro_batches, False),
             shows=_several_micro_batches),
        Slip("last micro-batch only", "Only the last micro-batch's gradients are left: let the micro-batches add up.",
             _last_micro_batch, shows=_several_micro_batches),
        Slip("divided by the replicas", "Loss and gradients are as many times too small as there are replicas: here each "
             "replica has the mean of its own rows; reduce_gradients averages over replicas.",
             lambda case, rank, right: _result(case, rank, _share(case, rank), 1 / case.inputs[rank]["sizes"]["dp"]),
             shows=_several("dp")),
        Slip("loss on every stage", "All stages return the loss: here only the last stage does, and the others return 0. "
             "The trainer tells them.", _loss_everywhere, shows=_several("pp")),
    ),
)
