"""What figures need of a trace. They take any plain data of this form; utils.trace makes it."""

from collections.abc import Sequence
from typing import Any, Protocol

HOLDS = "holds, "  # the name of a mark of what a rank holds: this, then the moment's
BEFORE = "before the step"  # the moment at which a step begins


class Call(Protocol):
    """One collective, send or receive of one rank, in seconds and bytes."""

    rank: int
    op: str
    peer: int | None
    is_async: bool
    start_s: float
    end_s: float | None
    wait_start_s: float | None
    blocked_s: float
    waiting_s: float
    bytes: int
    bytes_given: int


class Trace(Protocol):
    """All of a run."""

    world_size: int
    calls: Sequence[Call]
    spans: Sequence[Any]
    wire_bytes: list[list[int]] | None
    duration_s: float

    @property
    def ranks(self) -> Sequence[int]: ...
    def of(self, rank: int | None = None, op: str | None = None) -> Sequence[Call]: ...
    def bytes_sent(self, rank: int) -> float: ...
    def wire_sent(self, rank: int) -> int | None: ...
    def traffic_matrix(self) -> list[list[float]]: ...
