"""While ranks work for longer than a second: what each of them does, below the cell, written anew as it changes."""

import os
from typing import Any

from utils.deadlocks.errors import ranks_in_words
from utils.deadlocks.verdicts import waiting_ranks
from utils.deadlocks.waits import WaitState
from utils.trace.source import running_shell

FIRST_S, AGAIN_S = 1.0, 0.4  # after the ranks have met
MOST_LINES = 8  # more ranks than this share a line where they do the same
_ENDED = {"returned": "done", "raised": "raised an error", "died": "is gone"}


class StatusLines:
    """The lines of one run."""

    def __init__(self):
        self._since: dict[int, tuple[str, float]] = {}  # rank -> what it does, and since when
        self._handle: Any = None

    def look(self, state: WaitState, passed_s: float) -> None:
        """Show where all ranks stand; called again and again.  passed_s: since they met."""
        text = "\n".join(self.lines(state, passed_s))
        if passed_s >= FIRST_S:
            self._show(text)

    def lines(self, state: WaitState, passed_s: float) -> list[str]:
        """A line a rank, or a line for all ranks that do the same, each with the seconds that the longest has done it."""
        waiting = {stands.rank: stands.what for stands in waiting_ranks(state)}
        for rank, stands in enumerate(state.ranks):
            words = _ENDED[stands.ending] if stands.ending else waiting.get(rank, "computing")
            if self._since.get(rank, ("", 0.0))[0] != words:
                self._since[rank] = words, passed_s
        together: dict[Any, list[int]] = {}
        for rank, (words, _) in sorted(self._since.items()):
            together.setdefault(words if len(state.ranks) > MOST_LINES else (rank, words), []).append(rank)
        return [self._line(ranks, passed_s) for ranks in together.values()]

    def _line(self, ranks: list[int], passed_s: float) -> str:
        words = self._since[ranks[0]][0]
        seconds = passed_s - min(self._since[rank][1] for rank in ranks)
        return f"{ranks_in_words(ranks)}: {words}" + ("" if words == "done" else f", {seconds:.0f} s")

    def end(self, n_ranks: int, passed_s: float) -> None:
        """In the place of the lines, how long it took."""
        if self._handle is not None:
            self._show(f"{n_ranks} ranks, {passed_s:.1f} s")

    def _show(self, text: str) -> None:
        if self._handle is None:
            from IPython.display import display  # not above: ranks import `utils`, and they need no IPython

            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)


def status_lines() -> StatusLines | None:
    """None where nobody looks on: no notebook, or one that a program runs from top to bottom."""
    return StatusLines() if running_shell() is not None and "JPY_SESSION_NAME" in os.environ else None
