"""A hook has reduced each gradient: once is enough."""

from grader.exercises.shared.hunted import Inputs, of_replicas, one_process, replicas, scaled, total_of
from utils.models.hunted_plain import Notes, Tensors


def _used(times: int, whole: bool):
    """Each rank uses a sum over ranks, or its own gradient, over n to some power."""

    def train(inputs: Inputs) -> list[Notes]:
        n = len(inputs)

        def combine(gradients: list[Tensors], rank: int) -> Tensors:
            return {name: (total_of(gradients, name) if whole else gradients[rank][name]) / n ** times
                    for name in gradients[rank]}

        return replicas(inputs, combine)

    return train


def _smaller_steps(inputs: Inputs) -> list[Notes]:
    """n times the gradient, and an n-th of the learning rate."""
    return scaled(one_process(inputs), gradients=len(inputs))


EXERCISE = of_replicas("Case 6: gradients that grow", {
    "sum for mean": ("The gradients are n times the mean. Once they are reduced only once, they are sums over ranks: one "
                     "division is due.", _used(0, whole=True)),
    "divided twice": ("The gradients are n times too small: a sum over ranks, divided by n twice.", _used(2, whole=True)),
    "nobody reduces": ("Now no gradient is reduced at all: each rank divides its own. One of the two reductions must stay.",
                       _used(1, whole=False)),
    "each its own": ("Now no gradient is reduced at all: each rank trains alone. One of the two reductions must stay.",
                     _used(0, whole=False)),
    "learning rate divided": ("The weights come out right, since the learning rate was divided by n; the gradients are "
                              "still n times too large, and clipping or another optimizer would notice.", _smaller_steps),
})
