"""Cases and results that the exercises of ZeRO share."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import once_a_group, pieces
from grader.exercises.shared.one_process import mean_gradients
from grader.exercises.shared.training_cases import SEEDS, Inputs, model_cases
from grader.judging.exercise import Case, Draw
from utils.models.layers import slices_of


def odd_models(draw: Draw, grading: bool, inputs: Inputs, tiny: str) -> Sequence[Case]:
    """Every odd model; and one that is `tiny`, on more ranks than it has tensors, or some tensor numbers."""

    cases = model_cases(draw, grading, ("mlp", "tied", "frozen", "seldom", "gpt", "mixed"), with_rests(inputs))
    small = Case(f"4 ranks, {tiny}", tuple(inputs("linear", 4, draw.integer(0, SEEDS))))
    return [*cases[:-1], small, cases[-1]]


def with_rests(inputs: Inputs) -> Inputs:
    """The same; in the second half of the steps the layer rests that a model may have for that."""

    def rested(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        of_ranks = inputs(model, n, seed)
        for own in of_ranks if model == "seldom" else ():
            for x in own["xs"][len(own["xs"]) // 2:]:
                x[:, 0] = 0  # see grader.calling.zoo
        return of_ranks

    return rested


def optimizer_for(model: str, n_ranks: int) -> dict[str, Any]:
    """Which optimizer trains, and its options. AdamW makes rounding errors of float32 as large as a step."""
    if n_ranks == 3 or model == "mixed":
        return {"optimizer": "SGD", "options": {"momentum": 0.9}}
    return {"optimizer": "AdamW", "options": {}}


# ── which part of a flat buffer is whose ──


def own_shard(case: Case, rank: int, row: Tensor) -> Tensor:
    """This rank's shard of a flat buffer."""
    return pieces(row, case.group_size(rank))[case.group_rank(rank)]


def slices_on(case: Case, rank: int, tensors: Sequence[Tensor]) -> list[Tensor]:
    """What lies on `rank` of each of a layer's tensors, perhaps nothing, when all are one flat buffer."""
    shard = own_shard(case, rank, torch.cat([tensor.flatten() for tensor in tensors]))
    return slices_of(shard, [tensor.shape for tensor in tensors], first=case.group_rank(rank) * len(shard))


@once_a_group
def _mean(case: Case, rank: int, number: int) -> dict[str, Tensor | None]:
    """The mean gradients of one backward pass."""
    batches = [(xs[number], ys[number]) for xs, ys in zip(
        case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
    return mean_gradients(case, rank, batches)


def mean_shards(case: Case, rank: int, passes: Sequence[int]) -> dict[str, Tensor]:
    """This rank's pieces of the mean gradients, summed over these backward passes; of the gradients that exist."""
    total: dict[str, Tensor] = {}
    for number in passes:
        for name, gradient in _mean(case, rank, number).items():
            if gradient is not None:
                total[name] = total.get(name, 0) + gradient
    return {name: own_shard(case, rank, gradient.flatten()) for name, gradient in total.items()}
