"""Training steps on a mesh: the losses, gradients and parameters of one process with the whole batch."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.meshes import make_model, parts_on
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.meshes import in_words, lines_of, place_of, sizes_of
from grader.exercises.shared.trained import MODEL, gradients_by_use
from grader.judging.exercise import Case, Draw, Exercise
from utils.models.blocks import BlockGPT

STEPS, LR = 3, 0.5
UNCLIPPED, CLIPPED = 1e3, 0.25
NOTHING = torch.zeros((), dtype=torch.float64)
State = dict[str, Tensor]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Where only tp has several ranks, gradients are there from the beginning."""
    shapes = [((2, 1, 1), UNCLIPPED), ((1, 3, 1), UNCLIPPED), ((1, 1, 2), CLIPPED), ((2, 2, 1), CLIPPED),
              ((2, 2, 2), UNCLIPPED)]
    shapes += [((1, 2, 2), CLIPPED), ((3, 1, 2), UNCLIPPED), ((1, 1, 1), CLIPPED)] * grading
    return [_case(draw, *shape) for shape in shapes]


def _case(draw: Draw, shape: tuple[int, int, int], max_norm: float) -> Case:
    sizes = sizes_of(shape)
    tokens, targets = ([draw.tensor(sizes["dp"] * 2, MODEL["length"], dtype=torch.int64).abs() for _ in range(STEPS)]
                       for _ in range(2))
    model = make_model(MODEL | {"seed": draw.seed()})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    steps = [_in_one_process(model, *batch, sizes, max_norm) for batch in zip(tokens, targets, strict=True)]
    common = {"model": MODEL, "sizes": sizes, "lines": lines_of(sizes), "lr": LR, "n_micro": 1, "max_norm": max_norm,
              "tokens": tokens, "targets": targets, "left": shape == (1, 1, 2)}
    clipped = ", gradients clipped" if max_norm == CLIPPED else ""
    return Case(in_words(sizes) + clipped, tuple(_of_rank(rank, common, before, steps) for rank in range(math.prod(shape))))


def _in_one_process(model: BlockGPT, tokens: Tensor, targets: Tensor, sizes: dict[str, int],
                    max_norm: float) -> dict[str, Any]:
    """One step of training: each replica's loss and gradients, the whole batch's gradients, their norm."""
    untied = sizes["pp"] > 1
    rows = zip(tokens.chunk(sizes["dp"]), targets.chunk(sizes["dp"]), strict=True)
    shares = [gradients_by_use(model, *own, untied) for own in rows]
    _, whole = gradients_by_use(model, tokens, targets, False)
    for name, p in model.named_parameters():
        p.grad = whole[name].clone()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    torch.optim.SGD(model.parameters(), lr=LR).step()
    return {"shares": shares, "whole": whole, "norm": norm}


def _of_rank(rank: int, common: dict[str, Any], before: State, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """What one rank is given: its pieces of the weights, and what its parts find in each step."""
    place, sizes = place_of(common["sizes"], rank), common["sizes"]

    def own(state: State) -> State:
        return parts_on(rank, state, common["lines"], MODEL["layers"])

    found = []
    for step in steps:
        loss, share = step["shares"][place["dp"]]
        found.append({"loss": loss if place["pp"] == sizes["pp"] - 1 else NOTHING, "own": own(share),
                      "reduced": own(step["whole"]), "norm": step["norm"]})
    return common | {"weights": own(before), "steps": found}


# ── what is right ──


def _loss(case: Case, step: int) -> Tensor:
    """The mean over all replicas. Each loss is known once for each rank of a tp group."""
    sizes = case.inputs[0]["sizes"]
    own = [inputs["steps"][step]["loss"] for rank, inputs in enumerate(case.inputs)
           if place_of(sizes, rank)["pp"] == sizes["pp"] - 1]
    return sum(own) / len(own)


def _right(case: Case, rank: int) -> dict[str, Any]:
    inputs, parameters, first = case.inputs[rank], case.inputs[rank]["weights"], {}
    for step in inputs["steps"]:
        scale = min(1.0, inputs["max_norm"] / (float(step["norm"]) + 1e-6))  # as torch's clip_grad_norm_ has it
        scaled = {name: scale * gradient for name, gradient in step["reduced"].items()}
        first = first or scaled
        parameters = {name: p - LR * scaled[name] for name, p in parameters.items()}
    return {"losses": [_loss(case, number) for number in range(STEPS)], "gradients": first, "parameters": parameters}


EXERCISE = Exercise(
    title="A step on the mesh",
    parameters=("stage", "optimizer", "n_micro", "mesh", "max_norm"),
    forbidden=("torch.distributed.tensor", "torch.distributed.pipelining"),
    make_cases=_cases,
    oracle=each_rank(_right),
    trains=True,
    tolerance=1e-6,
    timeout_s=30.0,
    points={"values": 1, "technique": 1},
)
