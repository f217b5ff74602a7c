"""The activations that a rank really holds at the moments of a training step."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from utils.models.blocks import TransformerBlock
from utils.models.layers import Called
from utils.trace.memory import held_by_category


def measured_step(blocks: Sequence[TransformerBlock | Called], x_SBD: Tensor) -> list[int]:
    """Bytes of activations during a pass through `blocks` and back, beyond those held before: three numbers a segment.

    First one after each segment's forward pass, then two for each from the last to the first: when its backward pass begins,
    once it has been run again if it is recomputed, and when it is over. The activation that is being passed on, or its
    gradient, counts too. A block is three segments: up to the core of attention, the core, and all behind it. One that is a
    `Called`, which recomputes it, is a single segment; so may its `attention` be one.
    Raises: RuntimeError outside a rank whose memory is measured.
    """
    ends = [end for block in blocks for end in (
        (block,) if isinstance(block, Called) else (block.qkv, block.attention, block))]
    run = nn.Sequential(*blocks)
    with torch.no_grad():
        run(x_SBD)  # from now on the meter knows which tensors are parameters
    before, moments = _activations(), []

    def note(times: int = 1) -> None:
        moments.extend([_activations() - before] * times)

    def on_forward(end: nn.Module, arguments: Any, y: Tensor) -> None:
        note()
        # The gradient of y is there when the next segment's backward is over. Then this one's begins, unless it runs again.
        times = (end is not ends[-1]) + (not isinstance(end, Called))
        y.register_hook(lambda _: note(times))

    def on_second_run(*_: Any) -> None:
        if torch.is_grad_enabled():
            note()

    hooks = [end.register_forward_hook(on_forward) for end in ends]
    hooks += [end.module.register_forward_hook(on_second_run) for end in ends if isinstance(end, Called)]
    x_SBD = 1 * x_SBD.detach().requires_grad_()  # no leaf: a leaf's hook may come before the weights have their gradients
    x_SBD.register_hook(lambda _: note())
    run(x_SBD).sum().backward()
    for hook in hooks:
        hook.remove()
    return moments


def _activations() -> int:
    return held_by_category()["activations"]
