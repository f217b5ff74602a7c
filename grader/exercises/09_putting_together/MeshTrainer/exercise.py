"""Training steps on a mesh: the losses, gradients and parameters of one process with the whole batch."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.meshes import EMBEDDING, HEAD, leave_gradients, make_model, parts_on
from grader.exercises.shared.cases import each_rank, once_a_group
from grader.exercises.shared.meshes import in_words, lines_of, place_of, sizes_of
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.shards import cut_dim
from utils.models.tiny import next_byte_loss

STEPS, LENGTH, LR = 2, 5, 0.5
MODEL = {"length": LENGTH, "dim": 4, "layers": 3, "heads": 4}
UNCLIPPED, CLIPPED = 1e3, 0.25


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Where only tp has several ranks, gradients are there from the beginning."""
    shapes = [((2, 1, 1), 2, UNCLIPPED), ((1, 3, 1), 4, UNCLIPPED), ((1, 1, 2), 1, CLIPPED), ((2, 2, 1), 3, CLIPPED),
              ((2, 2, 2), 2, UNCLIPPED)]
    shapes += [((1, 2, 2), 2, CLIPPED), ((3, 1, 2), 1, UNCLIPPED), ((1, 1, 1), 2, CLIPPED)] * grading
    return [_case(draw, *shape) for shape in shapes]


def _case(draw: Draw, shape: tuple[int, int, int], n_micro: int, max_norm: float) -> Case:
    sizes = sizes_of(shape)
    tokens, targets = ([draw.tensor(sizes["dp"] * n_micro * 2, LENGTH, dtype=torch.int64).abs() for _ in range(STEPS)]
                       for _ in range(2))
    inputs = {"model": MODEL | {"seed": draw.seed()}, "sizes": sizes, "lines": lines_of(sizes), "lr": LR,
              "n_micro": n_micro, "max_norm": max_norm, "tokens": tokens, "targets": targets, "left": shape == (1, 1, 2)}
    clipped = ", gradients clipped" if max_norm == CLIPPED else ""
    return Case(f"{in_words(sizes)}, {n_micro} micro-batch{'es' * (n_micro > 1)}{clipped}", (inputs,) * math.prod(shape))


# ── one process ──


def _mean_loss(model: nn.Module, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
    return next_byte_loss(model(tokens_BT.T).transpose(0, 1), targets_BT).mean()


def _gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@once_a_group
def _plain(case: Case, rank: int, keep: bool = False, late: bool = False) -> dict[str, Any]:
    """Losses, the first step's clipped gradients, the parameters at the end.

    keep: gradients are never forgotten. late: they are forgotten after each step.
    """
    inputs, losses, first = case.inputs[0], [], {}
    model = make_model(inputs["model"])
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    if inputs["left"]:
        leave_gradients(model)
    for tokens, targets in zip(inputs["tokens"], inputs["targets"], strict=True):
        if not (keep or late):
            optimizer.zero_grad()
        elif keep and first and inputs["sizes"]["pp"] > 1:
            model.embedding.weight.grad *= 2  # both ends kept it, and add theirs to the other's
        loss = _mean_loss(model, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), inputs["max_norm"])
        first = first or _gradients(model)
        optimizer.step()
        losses.append(loss.detach())
        if late:
            optimizer.zero_grad()
    return {"losses": losses, "gradients": first, "parameters": {n: p.detach() for n, p in model.named_parameters()}}


@once_a_group
def _first_rows(case: Case, rank: int, first: int, stop: int) -> dict[str, Any]:
    """The first step's loss and unclipped gradients for some rows of the batch."""
    inputs = case.inputs[0]
    model = make_model(inputs["model"])
    loss = _mean_loss(model, *(inputs[name][0][first:stop] for name in ("tokens", "targets")))
    loss.backward()
    return {"loss": loss.detach(), "gradients": _gradients(model)}


@once_a_group
def _untied(case: Case, rank: int) -> dict[str, Tensor]:
    """What embedding and head each contribute to their weight's gradient, and all other gradients."""
    inputs = case.inputs[0]
    model = make_model(inputs["model"])
    model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    _mean_loss(model, inputs["tokens"][0], inputs["targets"][0]).backward()
    return _gradients(model)


# ── a rank's part ──


def _own(case: Case, rank: int, whole: dict[str, Tensor]) -> dict[str, Tensor]:
    return parts_on(rank, whole, case.inputs[rank]["lines"], MODEL["layers"])


def _part(case: Case, rank: int, plain: dict[str, Any]) -> dict[str, Any]:
    return {"losses": plain["losses"]} | {part: _own(case, rank, plain[part]) for part in ("gradients", "parameters")}


def _right(case: Case, rank: int) -> dict[str, Any]:
    return _part(case, rank, _plain(case, 0))


# ── slips, seen in the first step ──


def _several(axis: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[0]["sizes"][axis] > 1


def _clips(case: Case) -> bool:
    return case.inputs[0]["max_norm"] == CLIPPED


def _whole(case: Case) -> dict[str, Tensor]:
    """The first step's gradients, as one process has them before it clips."""
    return _first_rows(case, 0, 0, len(case.inputs[0]["tokens"][0]))["gradients"]


def _first_step(case: Case, rank: int, right: list[Any], gradients: dict[str, Tensor], loss: Any = None,
                of: dict[str, Tensor] | None = None, clip: bool = True) -> dict[str, Any]:
    """Of a step that comes to these gradients of the whole model, and clips them by their norm, or that of others."""
    counted = [g for name, g in (of or gradients).items() if of or name != HEAD]
    scale = min(1.0, case.inputs[0]["max_norm"] / (float(torch.nn.utils.get_total_norm(counted)) + 1e-6)) if clip else 1.0
    own = {name: gradient * scale for name, gradient in _own(case, rank, gradients).items()}
    return {"losses": [right[rank]["losses"][0] if loss is None else loss, *[ANYTHING] * (STEPS - 1)], "gradients": own,
            "parameters": ANYTHING}


def _share(case: Case, rank: int, of: int) -> dict[str, Any]:
    """_first_rows of the of-th share of the batch."""
    inputs = case.inputs[0]
    each = len(inputs["tokens"][0]) // inputs["sizes"]["dp"]
    return _first_rows(case, rank, of * each, (of + 1) * each)


def _unreduced(case: Case, rank: int, right: list[Any], first: bool = False) -> dict[str, Any]:
    """Each replica goes its own way; first: all of them take the first share, and its loss."""
    share = _share(case, rank, 0 if first else place_of(case.inputs[rank]["sizes"], rank)["dp"])
    return _first_step(case, rank, right, share["gradients"], share["loss"] if first else None)


def _own_loss(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    share = _share(case, rank, place_of(case.inputs[rank]["sizes"], rank)["dp"])
    return right[rank] | {"losses": [share["loss"], *[ANYTHING] * (STEPS - 1)]}


def _times(factor: str, loss: bool, case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """Gradients as many times too large as there are micro-batches, or replicas; and the loss."""
    inputs = case.inputs[rank]
    n = inputs["n_micro"] if factor == "n_micro" else inputs["sizes"][factor]
    times = {name: n * gradient for name, gradient in _whole(case).items()}
    return _first_step(case, rank, right, times, n * right[rank]["losses"][0] if loss else None)


def _last_micro_batch(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """Only the last micro-batch of each share counts."""
    inputs, found = case.inputs[rank], []
    n, m = inputs["sizes"]["dp"], inputs["n_micro"]
    each = len(inputs["tokens"][0]) // n
    for share in range(n):
        stop = (share + 1) * each
        found.append(_first_rows(case, rank, stop - each // m, stop)["gradients"])
    return _first_step(case, rank, right, {name: sum(g[name] for g in found) / n / m for name in found[0]})


def _tied(case: Case, rank: int, right: list[Any], mean: bool = False) -> dict[str, Any]:
    """Embedding and head keep what each of them contributes; or both have the mean of the two."""
    gradients = _untied(case, rank)
    if mean:
        half = (gradients[EMBEDDING] + gradients[HEAD]) / 2
        gradients = gradients | {EMBEDDING: half, HEAD: half}
    return _first_step(case, rank, right, gradients)


def _not_clipped(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    return _first_step(case, rank, right, _whole(case), clip=False)


def _factor(case: Case, gradients: dict[str, Tensor]) -> float:
    """To max_norm, as torch computes it."""
    return case.inputs[0]["max_norm"] / (float(torch.nn.utils.get_total_norm(gradients.values())) + 1e-6)


def _enlarged(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """Scaled to max_norm, small gradients too."""
    whole = _whole(case)
    scale = _factor(case, whole)
    return _first_step(case, rank, right, {name: gradient * scale for name, gradient in whole.items()}, clip=False)


def _clipped_too_early(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """Each replica clips its own share's gradients; then they are averaged."""
    n, clipped = case.inputs[0]["sizes"]["dp"], []
    for share in range(n):
        gradients = _share(case, rank, share)["gradients"]
        scale = min(1.0, _factor(case, gradients))
        clipped.append({name: gradient * scale / n for name, gradient in gradients.items()})
    return _first_step(case, rank, right, {name: sum(g[name] for g in clipped) for name in clipped[0]}, clip=False)


def _divided_by_the_world(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    factor = case.inputs[0]["sizes"]["dp"] / case.world_size
    return _first_step(case, rank, right, {name: factor * gradient for name, gradient in _whole(case).items()})


def _no_loss(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    return right[rank] | {"losses": [torch.zeros((), dtype=torch.float64)] * STEPS}


def _own_norm(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    whole = _whole(case)
    return _first_step(case, rank, right, whole, of=_own(case, rank, whole))


def _whole_ones_summed(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """Along tp, those that are not cut."""
    n = case.inputs[rank]["sizes"]["tp"]
    return _first_step(case, rank, right, {name: gradient * (n if cut_dim(name) is None else 1)
                                           for name, gradient in _whole(case).items()})


def _loss_of_last_stage(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    sizes = case.inputs[rank]["sizes"]
    is_last = place_of(sizes, rank)["pp"] == sizes["pp"] - 1
    return right[rank] | {"losses": right[rank]["losses"] if is_last else [torch.zeros((), dtype=torch.float64)] * STEPS}


def _several_micro_batches(case: Case) -> bool:
    return case.inputs[0]["n_micro"] > 1


EXERCISE = Exercise(
    title="A training step on a mesh",
    parameters=("stage", "optimizer", "n_micro", "mesh", "max_norm"),
    forbidden=("torch.distributed.tensor", "torch.distributed.pipelining"),
    make_cases=_cases,
    oracle=each_rank(_right),
    trains=True,
    tolerance=1e-6,
    timeout_s=30.0,
    points={"values": 6, "technique": 4},
    slips=(
        Slip("loss of the own share", "The losses are those of each replica's share of the batch: average them along dp, as "
             "the gradients.", _own_loss, shows=_several("dp")),
        Slip("loss on the last stage only", "Only the last stage knows the loss, and the others return 0: it has to tell "
             "them, along pp.", _loss_of_last_stage, shows=_several("pp")),
        Slip("replicas not averaged", "Each replica keeps the gradients of its own share of the batch, and the replicas "
             "drift apart: average the gradients along dp.", _unreduced, shows=_several("dp")),
        Slip("same share", "All replicas take the first share of the batch: a rank's place along dp says which one is its "
                           "own.",
             partial(_unreduced, first=True), shows=_several("dp")),
        Slip("sum over replicas", "Gradients are as many times too large as there are replicas: along dp the mean is asked, "
             "and all_reduce sums.", partial(_times, "dp", False), shows=_several("dp")),
        Slip("micro-batches summed", "Gradients and loss are as many times too large as there are micro-batches: the mean "
             "of the share is the mean of their m losses, so divide each by m before it goes backward.",
             partial(_times, "n_micro", True), shows=_several_micro_batches),
        Slip("gradients of a sum", "The loss is right, but gradients are as many times too large as there are "
             "micro-batches: divide each one's loss by m *before* it goes backward.", partial(_times, "n_micro", False),
             shows=_several_micro_batches),
        Slip("last micro-batch only", "Only the last micro-batch's gradients are left: clear them once a step, and let the "
             "micro-batches add up.", _last_micro_batch, shows=_several_micro_batches),
        Slip("tied weight not summed", "The embedding on the first stage and the head on the last are one weight, whose "
             "gradient is the sum of both: each stage kept its own part.", _tied,
             shows=_several("pp")),
        Slip("tied weight averaged", "The tied weight's gradient is half of what it should be: it is the *sum* of what the "
             "first and the last stage found.", partial(_tied, mean=True), shows=_several("pp")),
        Slip("not clipped", "The gradients are right, but they were not clipped before the "
                            "update.", _not_clipped, shows=_clips),
        Slip("gradients enlarged", "Gradients whose norm is smaller than max_norm are scaled up to it: clipping only ever "
             "makes them smaller, so the factor is at most 1.", _enlarged),
        Slip("clipped too early", "Each replica clips the gradients of its own share, and then they are averaged: the norm "
             "is that of the averaged gradient, so clip after the average.", _clipped_too_early,
             shows=lambda case: _clips(case) and _several("dp")(case)),
        Slip("divided by the world's size", "Gradients are too small, by the number of ranks in a replica: only replicas "
             "are averaged over, so divide by the size of mesh[\"dp\"] and not by the world's.", _divided_by_the_world,
             shows=lambda case: not _clips(case) and (_several("pp")(case) or _several("tp")(case))),
        Slip("loss of the first stage", "All ranks return 0, which the stages before the last have as their loss: the last "
             "stage knows it, so it is the one that tells the others.", _no_loss, shows=_several("pp")),
        Slip("clipped by the own norm", "Each rank clips by the norm of the gradients that it has itself: all must use the "
             "norm of the whole model's, mesh_gradient_norm.", _own_norm,
             shows=lambda case: _clips(case) and (_several("pp")(case) or _several("tp")(case))),
        Slip("whole ones summed along tp", "Gradients of parameters that are not cut are tp times too large: f and g inside "
             "the stage have made them complete, the same on all ranks of tp, so nothing is to be summed there.",
             _whole_ones_summed, shows=_several("tp")),
        Slip("cleared too late", "What stood in .grad before the first step was counted: clear gradients at the beginning "
             "of a step, not at its end.", lambda case, rank, right: _part(case, rank, _plain(case, 0, late=True)),
             shows=lambda case: case.inputs[0]["left"]),
        Slip("gradients not cleared", "The first step is right; in the second, gradients of the first are still there: "
             "clear them at the beginning of each step.",
             lambda case, rank, right: _part(case, rank, _plain(case, 0, keep=True))),
    ),
)
