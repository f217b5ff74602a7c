"""A prefetch that begins once the shards are what they will be."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.hunted import LR, UNTOUCHED, Inputs, Trained, hunted, of, shared_batches, worlds
from utils.models.hunted import HIDDEN, IN, OUT, ShardedMLP
from utils.models.hunted_plain import Notes, Tensors, plain_shards, trained

Age = Callable[[int], int]  # step -> how many steps older than it should be a weight is


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_shards(of(inputs, "batches"), LR)


def _aged(up_age: Age, down_age: Age = lambda step: 0) -> Trained:
    """One process whose layers compute with older weights."""

    def train(inputs: Inputs) -> list[Notes]:
        model, all_batches, history = ShardedMLP(0, 1), of(inputs, "batches"), []

        def losses(step: int) -> tuple[Tensor, list[Tensor]]:
            history.append((model.up.detach().clone(), model.down.detach().clone()))
            up, down = (history[step - age(step)][place] + (p - p.detach())  # an old value, and the gradient goes to p
                        for place, (p, age) in enumerate(((model.up, up_age), (model.down, down_age))))
            own = [F.mse_loss(torch.tanh(x @ up.view(IN, HIDDEN)) @ down.view(HIDDEN, OUT), y)
                   for x, y in (batches[step] for batches in all_batches)]
            return torch.stack(own).mean(), own

        def parts(tensors: Tensors, rank: int) -> Tensors:
            return {name: whole.chunk(len(inputs))[rank] for name, whole in tensors.items()}

        return trained(model, len(inputs), len(all_batches[0]), losses, LR, parts)

    return train


def _one_step(step: int) -> int:
    return min(step, 1)


EXERCISE = hunted("Case 9: a little off", ("batches", "lr", "group"), worlds(shared_batches, (1, 4)), _plain, {
    UNTOUCHED: ("Your program still does what the given one does. All of step 0 agrees with the plain process, and the loss "
                "of step 1 is the first result that doesn't. List rank 0's calls from the trace, and look at the two steps "
                "side by side.", _aged(_one_step)),
    "never gathered again": ("The first layer computes with its first weight for ever: gather it for each step.",
                             _aged(lambda step: step)),
    "both old": ("Now the second layer's weight is old as well: both gathers belong behind the optimizer's step.",
                 _aged(_one_step, _one_step)),
    "the other is old": ("The first layer's weight is right now, and the second layer's is that of the step before.",
                         _aged(lambda step: 0, _one_step)),
})
