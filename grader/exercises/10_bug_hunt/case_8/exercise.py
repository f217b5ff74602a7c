"""Data parallel: the mean over ranks."""

from collections.abc import Callable

from torch import Tensor

from grader.exercises.shared.hunted import UNTOUCHED, Inputs, Trained, of_replicas, one_process, replicas, scaled, total_of
from utils.models.hunted_plain import Notes, Tensors


def _used(use: Callable[[Tensor, Tensor, int], Tensor]) -> Trained:
    """use(own gradient, sum over ranks, n) → what each rank uses."""

    def train(inputs: Inputs) -> list[Notes]:
        def combine(gradients: list[Tensors], rank: int) -> Tensors:
            return {name: use(own, total_of(gradients, name), len(inputs)) for name, own in gradients[rank].items()}

        return replicas(inputs, combine)

    return train


EXERCISE = of_replicas("Case 8: the more, the slower", {
    UNTOUCHED: ("The gradients are n times those of the plain process: an all-reduce adds up, and the gradient of a mean is "
                "the mean of the ranks' gradients.", _used(lambda own, total, n: total)),
    "divided twice": ("The gradients are n times too small: divide once, before or after the all-reduce, not both.",
                      _used(lambda own, total, n: total / n ** 2)),
    "learning rate divided": ("The weights come out right, since the learning rate was divided by n. The gradients are "
                              "still n times too large, and clipping, weight decay or Adam would notice.",
                              lambda inputs: scaled(one_process(inputs), gradients=len(inputs))),
    "loss divided": ("Gradients and weights are right. But the loss that is noted was divided by n with them: it is the "
                     "mean of this rank's rows.", lambda inputs: scaled(one_process(inputs), loss=1 / len(inputs))),
    "own gradients": ("Each rank uses its own gradients: what was reduced is not written back.",
                      _used(lambda own, total, n: own)),
    "own gradients divided": ("Each rank divides its own gradients: what was reduced is not written back.",
                              _used(lambda own, total, n: own / n)),
})
