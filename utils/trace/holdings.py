"""What a rank holds of each layer while a step goes by: marks in the trace, which a player turns into pictures."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from utils.figures.traced import HOLDS
from utils.trace.memory import METER, held_by_category
from utils.trace.spans import mark

Layers = Sequence[tuple[nn.Module, list[nn.Parameter]]]


def watch_layers(layers: Layers) -> Callable[..., None]:
    """Note what this rank holds whenever a layer has computed, and whenever its largest gradient has just come.

    layers: layers_of(module), before a wrapper hangs its own hooks on them: so a layer is seen before it is freed or
    reduced. Returns note(moment, optimizer=None) for moments of your own; a player shows those from the last
    note("before the step") on. optimizer: what steps; where it has buckets, the shards of gradients in them are seen too.
    Raises: RuntimeError from a note outside a rank whose memory is measured.
    """
    buckets: list[Any] = []

    def note(moment: str, optimizer: Any = None) -> None:
        if hasattr(optimizer, "buckets"):
            buckets[:] = [optimizer.buckets]
        shards = buckets[0].shards if buckets else {}
        if meter := METER.get():
            meter.see([*(p.grad for p in sizes), *shards.values()], "gradients")
        mark(HOLDS + moment, bytes=held_by_category(), parameters=_shares(layers, sizes, lambda p: [p.data]),
             gradients=_shares(layers, sizes, lambda p: [p.grad, shards.get(p)]))

    sizes = {p: p.numel() for _, parameters in layers for p in parameters}
    for number, (layer, parameters) in enumerate(layers, 1):
        layer.register_forward_hook(lambda *_, name=f"layer {number} has computed forward": note(name))
        largest = max(parameters, key=lambda p: p.numel())
        largest.register_post_accumulate_grad_hook(lambda _, name=f"layer {number}'s gradient is complete": note(name))
    return note


def _shares(layers: Layers, sizes: dict[nn.Parameter, int],
            held: Callable[[nn.Parameter], list[Tensor | None]]) -> list[float]:
    """Of each layer's numbers, the part that `held` finds in memory."""
    return [sum(_count(x) for p in parameters for x in held(p)) / sum(sizes[p] for p in parameters)
            for _, parameters in layers]


def _count(x: Tensor | None) -> int:
    return 0 if x is None or not x.untyped_storage().nbytes() else x.numel()
