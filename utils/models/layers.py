"""The layers of any module, and the tensors inside any value: what a wrapper needs to know of what it wraps."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)


def layers_of(module: nn.Module) -> list[tuple[nn.Module, list[nn.Parameter]]]:
    """The module's layers, each with the parameters that no other layer uses, in the order of their registration.

    A layer is a child module; lists, dictionaries and sequences of modules are entered. What two layers share (tied
    weights), and what is used outside every layer, belongs to the module as a whole, which then comes first. A layer
    whose parameters have several dtypes comes once for each. Every parameter is in one of the lists, exactly once; a
    module without parameters has no layers.
    """
    layers = list(dict.fromkeys(_children(module)))
    users: dict[nn.Parameter, list[nn.Module]] = {parameter: [] for parameter in module.parameters()}
    for layer in layers:
        for parameter in layer.parameters():
            users[parameter].append(layer)
    found: dict[tuple, list[nn.Parameter]] = {}
    for layer in (module, *layers):
        for parameter, its_users in users.items():
            if layer is (its_users[0] if len(its_users) == 1 else module):
                found.setdefault((layer, parameter.dtype), []).append(parameter)
    return [(layer, parameters) for (layer, _), parameters in found.items()]


@contextlib.contextmanager
def hiding(module: nn.Module, parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Inside it, `module` does not show these parameters: module.parameters() and layers_of(module) leave them out.

    A tied one is hidden wherever it stands. Afterwards all are back in their places, the same objects in the same order.
    """
    away = set(parameters)
    places = [(part, name, p) for part in module.modules() for name, p in part._parameters.items() if p in away]
    for part, name, _ in places:
        part._parameters[name] = None
    try:
        yield
    finally:
        for part, name, p in places:
            part._parameters[name] = p


def slices_of(flat: Tensor, shapes: Sequence[torch.Size], first: int = 0) -> list[Tensor]:
    """The slice of `flat` of each of the tensors with these shapes, which lie one after another in a flat buffer.

    flat: (C,), elements [first, first + C) of the flat buffer. Returns views, 1-D: a tensor that lies outside gets an empty
    one, one that lies across an end the part inside.
    """
    start, found = -first, []
    for shape in shapes:
        found.append(flat[max(0, start):max(0, start + shape.numel())])
        start += shape.numel()
    return found


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a value made of tensors, lists, tuples and dictionaries, such as what a layer returns."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def cast_floats(value: Any, dtype: torch.dtype | None) -> Any:
    """The same value with its floating-point tensors in `dtype`; as it is where dtype is None."""
    return value if dtype is None else tree_map(
        lambda leaf: leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf, value)


def _children(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, CONTAINERS):
            yield from _children(child)
        else:
            yield child


class Called(nn.Module):
    """A module that is called in another way: call(module, *arguments)."""

    def __init__(self, module: nn.Module, call: Callable[..., Any]):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *arguments: Any) -> Any:
        return self.call(self.module, *arguments)
