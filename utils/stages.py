"""One stage of a pipeline: its module's output, and that of each layer inside it."""

from __future__ import annotations

from torch import Tensor, nn

from utils.layers import tensors_in

Layers = list[tuple[Tensor, list[nn.Parameter]]]


def with_layers(module: nn.Module, *args: Tensor) -> tuple[Tensor, Layers]:
    """module(*args), and of each layer that was used: its output, and the trained parameters that are its own.

    A layer is any module with parameters registered directly in it; used twice, it is there twice. Its output must be a
    tensor, and so must everything that autograd is to find: a layer with several outputs raises ValueError.
    """
    found: Layers = []

    def note(layer: nn.Module, _, output) -> None:
        own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        if own and len(tensors_in(output)) != 1:
            raise ValueError(f"{type(layer).__name__} returned {len(tensors_in(output))} tensors; expected one a layer")
        if own:
            found.append((tensors_in(output)[0], own))

    hooks = [layer.register_forward_hook(note) for layer in module.modules()]
    try:
        return module(*args), found
    finally:
        for hook in hooks:
            hook.remove()
