"""How a rank calls RowParallelLinear."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from grader.calling.splitting import SHARED, call_split_layer, linear_of
from utils.trace.spans import mark


def call(cls: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """layer = cls(linear, group), then forward and backward → y, dx, the gradients, and whether its bias is the whole.

    Marks whether a parameter lies in the memory of the weight that was given.
    """
    made, bias = [], inputs["linear"]["bias"]
    bias = None if bias is None else bias.clone()

    def make() -> nn.Module:
        whole = linear_of(inputs["linear"])
        made.append(cls(whole, group))
        if isinstance(made[-1], nn.Module):
            mark(SHARED, names=_in_memory_of(whole.weight, made[-1]))
        return made[-1]

    found = call_split_layer(make, inputs, "weight", "bias")
    if not isinstance(found, dict) or "y" not in found:
        return found
    return found | {"bias as it was": _same(made[-1].bias, bias)}


def _in_memory_of(whole: Tensor, layer: nn.Module) -> list[str]:
    place = whole.untyped_storage().data_ptr()
    return [name for name, p in layer.named_parameters() if p.untyped_storage().data_ptr() == place]


def _same(own: Tensor | None, given: Tensor | None) -> bool:
    return own is None or given is None or (own.shape == given.shape and bool((own == given).all()))
