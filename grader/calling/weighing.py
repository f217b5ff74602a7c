"""Inside a rank: moments at which it stands still while its memory is read from outside."""

import ctypes
import gc
import random
import time
from typing import Any

from torch import Tensor, nn

from grader.evidence.case import WEIGHED
from utils.trace.memory import held_bytes, is_measured, tensors_in
from utils.trace.spans import pause

BEGINNING, END = "before the function is there", "in the end"
BETWEEN_PASSES, GRADIENT = "between forward and backward", "when a gradient comes"
GRADIENTS = 4  # of a backward pass: the last one, and some that are drawn
LARGE_BYTES, _M_MMAP_THRESHOLD = 1 << 18, -3  # malloc.h
SETTLE_S = 0.05  # the transport lets go of what it sent a moment after the wait


def weigh_before() -> None:
    """Stand still once while nothing of the student's is here, nor any inputs."""
    _make_own()
    _stand_still(BEGINNING)


def weigh(inputs: dict[str, Any], moment: str) -> None:
    """In a case that is weighed: give back what is free, and stand still."""
    if inputs.get(WEIGHED):
        for tensor in tensors_in(list(inputs.values())):  # the meter counts what something touches
            tensor.detach()
        _stand_still(moment)


def _stand_still(moment: str) -> None:
    gc.collect()
    time.sleep(SETTLE_S)
    _give_back()
    pause(moment, held=held_bytes() if is_measured() else 0)


def _make_own() -> None:
    """What is shared with the process that this one was forked from would be copied, and weigh, as soon as it is used."""
    gc.unfreeze()
    gc.collect()  # writes to each object
    gc.freeze()


def _give_back() -> None:
    """Where malloc is glibc's: what is free goes back to the system now, and large blocks from now on as they are freed, on
    whatever thread; they would be weighed, too."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        libc.malloc_trim(0)


def weigh_at_gradients(model: nn.Module, inputs: dict[str, Any]) -> None:
    """In each backward pass, when some weights get their gradients, the first layer's among them. Before other hooks."""

    def note(_: Tensor) -> None:
        weigh(inputs, GRADIENT)

    if inputs.get(WEIGHED):
        first, *others = (p for p in model.parameters() if p.dim() > 1)
        for p in (first, *random.SystemRandom().sample(others, GRADIENTS - 1)):
            p.register_post_accumulate_grad_hook(note)
