"""Training steps on a mesh: the losses, gradients and parameters of one process with the whole batch."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.meshes import make_model, parts_on
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.meshes import in_words, lines_of, place_of, sizes_of
from grader.exercises.shared.trained import MODEL, gradients_by_use
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip
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


def _scale(inputs: dict[str, Any], step: dict[str, Any], gradients: State) -> float:
    """As torch's clip_grad_norm_ has it, where the norm is as many times too large as this rank's gradients are."""
    own, right = (float(torch.nn.utils.get_total_norm(state.values())) for state in (gradients, step["reduced"]))
    return min(1.0, inputs["max_norm"] / (float(step["norm"]) * own / right + 1e-6))


def _times(state: State, factor: float) -> State:
    return {name: factor * x for name, x in state.items()}


def _loss(case: Case, step: int, ranks: Sequence[int] | None = None) -> Tensor:
    """The mean over all replicas, or those of some ranks. Each loss is known once for each rank of a tp group."""
    sizes, own = case.inputs[0]["sizes"], []
    for rank in range(case.world_size) if ranks is None else ranks:
        if place_of(sizes, rank)["pp"] == sizes["pp"] - 1:
            own.append(case.inputs[rank]["steps"][step]["loss"])
    return sum(own) / len(own)


def _right(case: Case, rank: int, keep: bool = False, late: bool = False) -> dict[str, Any]:
    """keep: gradients are never cleared. late: they are cleared after each step."""
    inputs, parameters, first, left = case.inputs[rank], case.inputs[rank]["weights"], {}, {}
    if inputs["left"] and (keep or late):
        left = {name: torch.ones_like(p) for name, p in parameters.items()}
    for step in inputs["steps"]:
        summed = {name: gradient + left.get(name, 0) for name, gradient in step["reduced"].items()}
        scaled = _times(summed, _scale(inputs, step, summed))
        first, left = first or scaled, scaled if keep else {}
        parameters = {name: p - LR * scaled[name] for name, p in parameters.items()}
    return {"losses": [_loss(case, number) for number in range(STEPS)], "gradients": first, "parameters": parameters}


# ── slips, seen in the first step ──


def _several(axis: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[0]["sizes"][axis] > 1


def _clips(case: Case) -> bool:
    return case.inputs[0]["max_norm"] == CLIPPED


def _losses(case: Case, rank: int, right: list[Any], loss: Tensor) -> dict[str, Any]:
    return right[rank] | {"losses": [loss, *[ANYTHING] * (STEPS - 1)]}


def _scaled(case: Case, rank: int, right: list[Any], factor: float, of: State | None = None) -> dict[str, Any]:
    """A first step by these gradients, the right ones by default, times a factor."""
    gradients = _times(of or case.inputs[rank]["steps"][0]["reduced"], factor)
    return right[rank] | {"gradients": gradients, "parameters": ANYTHING}


def _own_loss(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    line = next(line for line in case.inputs[rank]["lines"]["pp"] if rank in line)
    return _losses(case, rank, right, _loss(case, 0, line))


def _summed_loss(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    return _losses(case, rank, right, case.inputs[rank]["sizes"]["dp"] * right[rank]["losses"][0])


def _loss_of_last_stage(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    sizes = case.inputs[rank]["sizes"]
    is_last = place_of(sizes, rank)["pp"] == sizes["pp"] - 1
    return _losses(case, rank, right, right[rank]["losses"][0] if is_last else NOTHING)


def _not_clipped(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    return _scaled(case, rank, right, 1.0)


def _enlarged(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """Scaled to max_norm, small gradients too."""
    inputs = case.inputs[rank]
    return _scaled(case, rank, right, inputs["max_norm"] / (float(inputs["steps"][0]["norm"]) + 1e-6))


def _own_norm(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    inputs = case.inputs[rank]
    norm = float(torch.nn.utils.get_total_norm(inputs["steps"][0]["reduced"].values()))
    return _scaled(case, rank, right, min(1.0, inputs["max_norm"] / (norm + 1e-6)))


def _not_reduced(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    step = case.inputs[rank]["steps"][0]
    return _scaled(case, rank, right, _scale(case.inputs[rank], step, step["own"]), of=step["own"])


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
    slips=(
        Slip("loss of the own share", "The losses are those of each replica's share of the batch: average them along dp, as "
             "the gradients.", _own_loss, shows=_several("dp")),
        Slip("losses summed", "The losses are as many times too large as there are replicas: all_reduce sums, and the mean "
             "over the replicas is asked.", _summed_loss, shows=_several("dp")),
        Slip("loss on the last stage only", "Only the last stage knows the loss, and the others return 0: it has to tell "
             "them, along pp.", _loss_of_last_stage, shows=_several("pp")),
        Slip("loss of the first stage", "All ranks return 0, which the stages before the last have as their loss: the last "
             "stage knows it, so it is the one that tells the others.",
             lambda case, rank, right: _losses(case, rank, right, NOTHING), shows=_several("pp")),
        Slip("not reduced", "The gradients are those that the passes left: reduce_gradients comes before they are clipped "
             "and used.", _not_reduced),
        Slip("not clipped", "The gradients are right, but they were not clipped before the "
                            "update.", _not_clipped, shows=_clips),
        Slip("gradients enlarged", "Gradients whose norm is smaller than max_norm are scaled up to it: clipping only ever "
             "makes them smaller, so the factor is at most 1.", _enlarged),
        Slip("clipped by the own norm", "Each rank clips by the norm of the gradients that it has itself: all must use the "
             "norm of the whole model's, mesh_gradient_norm.", _own_norm,
             shows=lambda case: _clips(case) and (_several("pp")(case) or _several("tp")(case))),
        Slip("cleared too late", "What stood in .grad before the first step was counted: clear gradients at the beginning "
             "of a step, not at its end.", lambda case, rank, right: _right(case, rank, late=True),
             shows=lambda case: case.inputs[0]["left"]),
        Slip("gradients not cleared", "The first step is right; in the second, gradients of the first are still there: "
             "clear them at the beginning of each step.", lambda case, rank, right: _right(case, rank, keep=True)),
    ),
)
