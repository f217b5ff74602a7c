"""Dropout: weights start alike, masks do not."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.hunted import (
    LR,
    UNTOUCHED,
    Inputs,
    Trained,
    hunted,
    of,
    shared_batches,
    simulated,
    total_of,
    worlds,
)
from grader.judging.exercise import Draw
from utils.models.hunted import SmallMLP
from utils.models.hunted_plain import Notes, Tensors, plain_dropout


def _inputs(n: int, draw: Draw) -> Inputs:
    seed = draw.seed()  # of weights and masks only
    return [own | {"seed": seed} for own in shared_batches(n, draw)]


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_dropout(of(inputs, "batches"), LR, inputs[0]["seed"])


def _seeded(model: Callable[[int, int], int], masks: Callable[[int, int], int | None], each_step: bool = False) -> Trained:
    """model(seed, rank) seeds the weights; masks(seed, rank) the masks, or None: they go on from there."""

    def train(inputs: Inputs) -> list[Notes]:
        with torch.random.fork_rng(devices=[]):
            return _trained(inputs, model, masks, each_step)

    return train


def _trained(inputs: Inputs, model: Callable, masks: Callable, each_step: bool) -> list[Notes]:
    seed, own_batches = inputs[0]["seed"], of(inputs, "batches")
    models, states, n = [], [], len(inputs)
    for rank in range(n):
        torch.manual_seed(model(seed, rank))
        models.append(SmallMLP(dropout=0.5))
        if masks(seed, rank) is not None:
            torch.manual_seed(masks(seed, rank))
        states.append(torch.get_rng_state())

    def losses(step: int) -> tuple[Tensor, list[Tensor]]:
        own = []
        for rank, batches in enumerate(own_batches):
            torch.set_rng_state(states[rank])
            x, y = batches[step]
            own.append(F.mse_loss(models[rank](x), y))
            states[rank] = states[rank] if each_step else torch.get_rng_state()
        return torch.stack(own).sum(), own

    def combine(gradients: list[Tensors], rank: int) -> Tensors:
        return {name: total_of(gradients, name) / n for name in gradients[rank]}

    return simulated(models, len(own_batches[0]), losses, combine)


EXERCISE = hunted("Case 5: the noise stays", ("batches", "lr", "seed", "group"), worlds(_inputs, (3,), (1, 2)), _plain, {
    UNTOUCHED: ("All ranks draw the same masks: each seeds alike, draws the same weights, and goes on from there. Masks "
                "need a random state of their rank's own.", _seeded(lambda seed, rank: seed, lambda seed, rank: None)),
    "models differ": ("The ranks start with different weights: what has the rank in it must be seeded after the model is "
                      "drawn, not before.", _seeded(lambda seed, rank: seed + 1 + rank, lambda seed, rank: None)),
    "models differ by rank": ("The ranks start with different weights: what has the rank in it must be seeded after the "
                              "model is drawn, not before.",
                              _seeded(lambda seed, rank: seed + rank, lambda seed, rank: None)),
    "off by one": ("The masks differ by rank, but come from seed + r: the contract says seed + 1 + r, since seed itself has "
                   "drawn the weights.", _seeded(lambda seed, rank: seed, lambda seed, rank: seed + rank)),
    "still one for all": ("All ranks still draw the same masks, from a new seed: it needs the rank in it.",
                          _seeded(lambda seed, rank: seed, lambda seed, rank: seed + 1)),
    "every step alike": ("Each step begins with the same masks again: seed once, before the loop.",
                         _seeded(lambda seed, rank: seed, lambda seed, rank: seed + 1 + rank, each_step=True)),
})
