"""Name a stretch of a rank's work, or an instant of it, so that it appears in the trace or can be looked at from outside."""

import contextlib
from typing import Any

from utils.trace.of_rank import OfRank
from utils.trace.recorder import Recorder

# A pause in which nobody looks, and which lasts as long as its rank is late (utils.ranks.job). At its end the launcher puts
# a mark into the trace, which says when it began.
HELD_UP = "held up"
RECORDER: OfRank[Recorder] = OfRank()


def span(name: str):
    """A context manager: what runs inside it is drawn in the timeline under `name`. Does nothing outside a rank."""
    recorder = RECORDER.get()
    return recorder.span(name) if recorder else contextlib.nullcontext()


def mark(name: str, **facts: Any) -> None:
    """Put a named instant, with JSON facts, into the trace. Does nothing outside a rank."""
    recorder = RECORDER.get()
    if recorder:
        recorder.mark(name, **facts)


def pause(name: str, **facts: Any) -> None:
    """Stand still until the place where the ranks run has looked at this one (utils.ranks.place). Does nothing elsewhere.

    facts: what it is told meanwhile, as JSON.
    """
    recorder = RECORDER.get()
    if recorder:
        recorder.pause(name, **facts)
