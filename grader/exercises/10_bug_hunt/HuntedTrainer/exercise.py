"""The blind hunt: a trainer on a mesh with five faults. Each case looks for one fault, the last one at a whole run."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.calling.hunting import N_TEXTS, REDUCED, drawn_gradients, drawn_rows
from grader.evidence.case import FAULT, WHOLE_RUN
from grader.exercises.shared.cases import each_rank, once_a_group
from grader.hunt import KINDS
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.models.hunted_mesh import IGNORED, Settings, Shape, drawn_texts, own_weights, whole_weights
from utils.models.hunted_mesh_plain import lr_at, norm_of, of_experts, plain_run, routed

SHAPES: dict[str, Shape] = {
    "same-texts": (2, 1, 1), "remainder": (1, 1, 1), "token-mean": (2, 1, 1),
    "gate": (1, 1, 1), "balance": (1, 1, 2), "dropout": (2, 1, 2),
    "norms": (1, 1, 2), "tied": (1, 2, 1), "experts": (2, 1, 1),
    "race": (2, 1, 1), "precision": (2, 1, 1),
    "local-norm": (1, 2, 1), "schedule": (1, 1, 1), "resume": (1, 1, 1),
    "order": (2, 2, 2), WHOLE_RUN: (2, 2, 2),  # last, because a program that hangs three times is tried no further
}


def _cases(draw: Draw, grading: bool) -> list[Case]:
    return [_case(fault, shape, draw.seed()) for fault, shape in SHAPES.items()]


def _case(fault: str, shape: Shape, seed: int) -> Case:
    settings = {"seed": seed, "max_norm": 0.4, "warm_up": 7, "batch": 6}
    return Case(fault, ({FAULT: fault, "shape": list(shape), "settings": settings},) * math.prod(shape))


@once_a_group
def _run(case: Case, rank: int) -> list[list[dict]]:
    return plain_run(*_made_of(case))


def _made_of(case: Case) -> tuple[Shape, Settings]:
    return tuple(case.inputs[0]["shape"]), Settings(**case.inputs[0]["settings"])


def _right(case: Case, rank: int) -> Any:
    fault, (shape, settings) = case.inputs[rank][FAULT], _made_of(case)
    if fault == WHOLE_RUN:
        return _run(case, rank)[rank]
    return _RIGHT[fault](rank, shape, settings)


def _texts_taken(rank: int, shape: Shape, settings: Settings) -> Tensor:
    n_texts = len(drawn_texts(settings.seed))
    taken = torch.zeros(2, n_texts)
    for number in range(2 * settings.batch):
        taken[number // settings.batch, number % n_texts] += 1
    return taken


def _targets(rank: int, shape: Shape, settings: Settings) -> float:
    return float(sum((targets != IGNORED).sum() for _, targets in drawn_texts(settings.seed)[:N_TEXTS]))


def _layer(settings: Settings) -> dict[str, Tensor]:
    weights = whole_weights(settings.seed)
    return {name.removeprefix("layers.0."): weight for name, weight in weights.items() if name.startswith("layers.0.")}


def _router_gradient(rank: int, shape: Shape, settings: Settings) -> Tensor:
    layer, x_SD = _layer(settings), drawn_rows(settings.seed)
    layer["router"].requires_grad_()
    (of_experts(x_SD, layer)[0] * x_SD).sum().backward()
    return layer["router"].grad


def _balance(rank: int, shape: Shape, settings: Settings) -> Tensor:
    h_SD = torch.cat([drawn_rows(settings.seed + other) for other in range(shape[2])])
    return routed(h_SD, _layer(settings)["router"]).balance_S.chunk(shape[2])[rank].sum()


def _reduced(fault: str, digits: bool = False) -> Callable[[int, Shape, Settings], dict[str, Tensor]]:
    """The sum of all ranks' gradients: along the only axis that has two."""

    def reduced(rank: int, shape: Shape, settings: Settings) -> dict[str, Tensor]:
        own = [own_weights(whole_weights(settings.seed), other, shape) for other in range(2)]
        drawn = [drawn_gradients(named, settings.seed + other, digits) for other, named in enumerate(own)]
        return {name: drawn[0][name] + drawn[1][name] for name in own[rank] if name.endswith(REDUCED[fault])}

    return reduced


def _clipped(rank: int, shape: Shape, settings: Settings) -> dict[str, Tensor]:
    """Then halved, and clipped again, which changes nothing."""
    gradients = drawn_gradients(whole_weights(settings.seed), settings.seed)
    scale = settings.max_norm / norm_of(gradients) / 2
    return own_weights({name: gradient * scale for name, gradient in gradients.items()}, rank, shape)


_RIGHT = {
    "same-texts": _texts_taken,
    "remainder": lambda rank, shape, settings: list(torch.cat(drawn_texts(settings.seed)[:N_TEXTS], dim=1)),
    "token-mean": _targets, "gate": _router_gradient, "balance": _balance,
    "dropout": lambda rank, shape, settings: math.prod(shape),
    "norms": _reduced("norms"), "tied": _reduced("tied"), "experts": _reduced("experts"),
    "race": _reduced("race"), "precision": _reduced("precision", digits=True),
    "local-norm": _clipped, "schedule": lambda rank, shape, settings: [lr_at(step, settings) for step in range(2)],
    "resume": lambda rank, shape, settings: 0.0, "order": lambda rank, shape, settings: True,
}

EXERCISE = Exercise(
    "The blind hunt", ("mesh", "texts", "settings"), _cases, each_rank(_right), points={VALUES: 10}, tolerance=1e-9,
    timeout_s=20.0, trains=True, forbidden=("utils.models.hunted_mesh_plain",), faults=len(KINDS),
)
