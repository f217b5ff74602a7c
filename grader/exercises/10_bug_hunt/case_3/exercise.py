"""Data parallel: all parameters, not only the body's."""

from collections.abc import Sequence

import torch
from torch import nn

from grader.exercises.shared.hunted import UNTOUCHED, Inputs, Trained, of_replicas, replicas, total_of
from utils.models.hunted_plain import Notes, Tensors


def _head(summed: bool = False, divided: bool = False, averaged_weights: bool = False) -> Trained:
    """The body as it should be; the head's gradients as it says."""

    def train(inputs: Inputs) -> list[Notes]:
        n = len(inputs)

        def combine(gradients: list[Tensors], rank: int) -> Tensors:
            used = {name: total_of(gradients, name) / n for name in gradients[rank]}
            for name in ("head.weight", "head.bias"):
                used[name] = (total_of(gradients, name) if summed else gradients[rank][name]) / (n if divided else 1)
            return used

        return replicas(inputs, combine, _average_heads if averaged_weights else lambda models: None)

    return train


def _average_heads(models: Sequence[nn.Module]) -> None:
    for of_ranks in zip(*(model.head.parameters() for model in models), strict=True):
        mean = torch.stack([p.detach() for p in of_ranks]).mean(0)
        for p in of_ranks:
            p.copy_(mean)


def _own(inputs: Inputs) -> list[Notes]:
    return replicas(inputs, lambda gradients, rank: gradients[rank])


EXERCISE = of_replicas("Case 3: two checkpoints", {
    UNTOUCHED: ("Your program still does what the given one does. In step 0 all losses agree with the plain process, and "
                "some gradients are the first results that don't. Compare the ranks in the picture. Then add up the bytes "
                "of rank 0's all-reduces in the trace.", _head()),
    "head summed": ("The head's gradients are added up over ranks now, and not divided: the mean is due, as for the body.",
                    _head(summed=True)),
    "head divided only": ("The head's gradients are divided by the number of ranks, but never added up.",
                          _head(divided=True)),
    "heads averaged": ("The ranks' heads are averaged after each step, so the weights agree. With plain SGD that comes to "
                       "the same; with any other optimizer it does not. Average the gradients, before the step.",
                       _head(averaged_weights=True)),
    "nothing reduced": ("No gradient is averaged any more: each rank trains alone.", _own),
})
