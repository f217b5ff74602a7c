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
    note("before the step") on. optimizer: what steps; where it steps on shards of its own, one for each parameter, their
    gradients are seen too.
    Raises: RuntimeError from a note outside a rank whose memory is measured.
    """
    shards: dict[nn.Parameter, nn.Parameter] = {}

    def note(moment: str, optimizer: Any = None) -> None:
        if optimizer is not None:
            shards.update(_own_shards(layers, optimizer))
        if meter := METER.get():
            meter.see([p.grad for p in (*sizes, *shards.values())], "gradients")
        mark(HOLDS + moment, bytes=held_by_category(), parameters=_shares(layers, sizes, lambda p: [p.data]),
             gradients=_shares(layers, sizes, lambda p: [p.grad, shards[p].grad if p in shards else None]))

    sizes = {p: p.numel() for _, parameters in layers for p in parameters}
    for number, (layer, parameters) in enumerate(layers, 1):
        layer.register_forward_hook(lambda *_, name=f"layer {number} has computed forward": note(name))
        largest = max(parameters, key=lambda p: p.numel())
        largest.register_post_accumulate_grad_hook(lambda _, name=f"layer {number}'s gradient has come": note(name))
    return note


def _shares(layers: Layers, sizes: dict[nn.Parameter, int],
            held: Callable[[nn.Parameter], list[Tensor | None]]) -> list[float]:
    """Of each layer's numbers, the part that `held` finds in memory."""
    return [sum(_count(x) for p in parameters for x in held(p)) / sum(sizes[p] for p in parameters)
            for _, parameters in layers]


def _count(x: Tensor | None) -> int:
    return 0 if x is None or not x.untyped_storage().nbytes() else x.numel()


def _own_shards(layers: Layers, optimizer: Any) -> dict[nn.Parameter, nn.Parameter]:
    """parameter → the shard that is stepped in its place, if there is one for each."""
    groups = getattr(optimizer, "optimizer", optimizer).param_groups
    stepped = [p for group in groups for p in group["params"]]
    trained = [p for _, parameters in layers for p in parameters]
    is_apart = len(stepped) == len(trained) and not set(stepped) & set(trained)
    return dict(zip(trained, stepped, strict=True)) if is_apart else {}
