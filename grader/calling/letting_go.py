"""What a rank still holds, once the transport has let go of what it sent: it does so a moment after the wait."""

import time
from collections.abc import Callable

from utils.trace.memory import held_bytes

SETTLE_S, POLL_S, QUIET_POLLS = 0.5, 0.005, 10


def settled(held: Callable[[], int], enough: int | None = None) -> int:
    """The least that `held()` says: asked until it is `enough`, or, where nobody knows what is, until it stays."""
    deadline_s, least, quiet = time.monotonic() + SETTLE_S, held(), 0
    while least > (enough or 0) and (enough is not None or quiet < QUIET_POLLS) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        now = held()
        least, quiet = (now, 0) if now < least else (least, quiet + 1)
    return least


def settled_bytes(start: int, enough: int | None = None) -> int:
    """Bytes held beyond `start`, asked likewise."""
    return settled(lambda: held_bytes() - start, enough)
