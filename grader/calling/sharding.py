"""Inside a rank: what stands in its memory while sharded parameters are computed with, and the names of such marks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.letting_go import settled_bytes
from utils.trace.memory import held_bytes
from utils.trace.spans import mark

HELD, OWNED, COMPUTED_IN, KEPT = "bytes held", "numbers owned", "computed in", "earlier layers kept"
ROWS = "storages of rows"
FREED_BYTES = 900
FORWARD, BACKWARD, BETWEEN, AFTER = "forward", "backward", "between start_gather and gather", "afterwards"
REDUCING, GIVEN_UP = "between reduce and finish", "gather given up"
AT_REST, FREED = "at rest", "freed"
ROUNDS = 2  # in which a sharded layer is gathered and its gradients reduced


def shards_by_name(model: nn.Module, shards: Mapping[nn.Parameter, Tensor], start: int) -> dict[str, Any]:
    """The shards of gradients, and whether gradients were left behind; marks what is held beyond `start` beside them."""
    left = sorted(name for name, p in model.named_parameters() if p.grad is not None)
    own = sum(getattr(shard, "nbytes", 0) for shard in shards.values())
    mark(HELD, phase=AFTER, bytes=settled_bytes(start, own) - own)
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {"shards": {names[key] if key in names else f"the {type(key).__name__} {key}": shard
                       for key, shard in shards.items()},
            "gradients left": left}


def dtype_of(name: str | None) -> torch.dtype | None:
    """The type that torch calls so, such as "float32"."""
    return getattr(torch, name) if name else None


def watch_layers(module: nn.Module, numbers: dict[str, int]) -> None:
    """Marks what is held beyond numbers["start"] as each Linear is done forward, and before its backward."""

    def note(phase: str) -> None:
        if "start" in numbers:
            mark(HELD, phase=phase, bytes=held_bytes() - numbers["start"])

    def after(layer, args, output) -> None:
        note(FORWARD)
        if output.requires_grad:
            output.register_hook(lambda gradient: note(BACKWARD))

    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(after)


def copied_pieces(pieces: Iterable[Tensor | None]) -> list[Tensor | None]:
    """Copies; None stands for an empty piece too."""
    return [None if piece is None or not piece.numel() else piece.detach().clone() for piece in pieces]


def copies(values: Iterable[Tensor | None]) -> list[Tensor | None]:
    """Copies; None stays None."""
    return [None if value is None else value.clone() for value in values]


def require_rest(call: str, parameters: Sequence[Tensor], shapes: Sequence[torch.Size]) -> None:
    """Raises: RuntimeError where a parameter has not the shape again that it had at rest, before `call`."""
    for p, shape in zip(parameters, shapes, strict=True):
        if p.shape != shape:
            raise RuntimeError(f"not at rest after {call}: p.data has shape {list(p.shape)}, its slice {list(shape)}")


def require_slices(parameters: Iterable[Tensor]) -> None:
    """Raises: RuntimeError where a new layer's parameter has not the shape of a slice."""
    for p in parameters:
        if p.ndim != 1:
            raise RuntimeError(f"not at rest after the constructor: p.data has shape {list(p.shape)}, its slice is 1-D")


def require_memory(views: Iterable[Tensor]) -> None:
    """Raises: RuntimeError where a view has no memory behind it: torch would crash."""
    if not all(view.untyped_storage().nbytes() for view in views):
        raise RuntimeError("a view that autograd kept of a parameter lies in a storage of size 0 after gather()")


def same_pieces(some: Iterable[Tensor | None], others: Iterable[Tensor | None]) -> bool:
    """Whether all of them have equal numbers."""
    return all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in zip(some, others, strict=True))
