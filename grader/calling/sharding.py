"""Inside a rank: what stands in its memory while sharded parameters are computed with, and the names of such marks."""

import time

import torch

from utils.trace.memory import held_bytes

HELD, OWNED, COMPUTED_IN, KEPT = "bytes held", "numbers owned", "computed in", "earlier layers kept"
ROWS = "storages of rows"
FREED_BYTES, SETTLE_S = 900, 0.3
FORWARD, BACKWARD, BETWEEN, AFTER = "forward", "backward", "between start_gather and gather", "afterwards"
REDUCING = "between reduce and finish"
ROUNDS = 2  # in which a sharded layer is gathered and its gradients reduced


def settled(start: int, enough: int) -> int:
    """Bytes held beyond `start`, once the transport has let go of what it sent: it does so a moment after the wait."""
    deadline_s = time.monotonic() + SETTLE_S
    while held_bytes() - start > enough and time.monotonic() < deadline_s:
        time.sleep(0.002)
    return held_bytes() - start


def dtype_of(name: str | None) -> torch.dtype | None:
    """The type that torch calls so, such as "float32"."""
    return getattr(torch, name) if name else None
