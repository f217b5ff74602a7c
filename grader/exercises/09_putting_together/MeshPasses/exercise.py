"""Passes on a mesh: each replica's loss and gradients are those of one process with the same rows; nothing is reduced."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.meshes import make_model, parts_on
from grader.exercises.shared.cases import each_rank, once_a_group
from grader.exercises.shared.meshes import in_words, lines_of, place_of, sizes_of
from grader.exercises.shared.trained import MODEL, gradients_by_use
from grader.judging.exercise import Case, Draw, Exercise

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


@once_a_group
def _rows(case: Case, rank: int, first: int, stop: int) -> tuple[Tensor, dict[str, Tensor]]:
    """The mean loss of some rows of the batch, and its gradients."""
    inputs = case.inputs[0]
    return gradients_by_use(make_model(inputs["model"]), inputs["tokens"][first:stop], inputs["targets"][first:stop],
                            inputs["sizes"]["pp"] > 1)


def _right(case: Case, rank: int) -> dict[str, Any]:
    """Of this replica's share of the batch."""
    inputs = case.inputs[rank]
    place, sizes = place_of(inputs["sizes"], rank), inputs["sizes"]
    each = len(inputs["tokens"]) // sizes["dp"]
    loss, gradients = _rows(case, rank, place["dp"] * each, (place["dp"] + 1) * each)
    return {"loss": loss if place["pp"] == sizes["pp"] - 1 else torch.zeros((), dtype=torch.float64),
            "gradients": parts_on(rank, gradients, inputs["lines"], MODEL["layers"])}


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
)
