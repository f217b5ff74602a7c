"""What can go wrong in a run, as few exceptions that show themselves in the student's words."""

from collections import defaultdict
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from utils.trace.source import Line

WIDTH = 88  # JupyterLab breaks longer lines in the middle of a word


@dataclass(frozen=True)
class Failure:
    """One rank's own error."""

    rank: int
    kind: str  # the exception's class, or "died"
    message: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    secondary: bool = False  # only a consequence of another rank's end

    def __str__(self) -> str:
        where = "".join(f"\n      {line}" for line in self.lines)
        notes = "".join(f"\n      {note}" for note in self.notes)
        return f"rank {self.rank}: {self.kind}: {self.message}".rstrip(": ") + where + notes


@dataclass(frozen=True)
class Standstill:
    """Where one rank stood, in words."""

    rank: int
    what: str
    line: Line | None = None

    def __str__(self) -> str:
        return f"rank {self.rank} {self.what}" + (f"\n      {self.line}" if self.line else "")


class ShowsItself:
    """An exception whose words are enough: IPython shows them without our own frames, which say nothing to the reader."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class BadType(ShowsItself, TypeError):
    """An argument of a kind that cannot work; nothing was started."""


class BadValue(ShowsItself, ValueError):
    """An argument with a value that cannot work; nothing was started."""


class RanksError(ShowsItself, RuntimeError):
    """A run that did not end well. `run`: the Run as far as it is known, with trace, output, results so far."""

    def __init__(self, message: str, run: Any = None):
        super().__init__(message)
        self.run = run


class RankFailed(RanksError):
    """One or more ranks raised or died. `failures`: the cause first; `waiting`: who merely waited for them."""

    def __init__(self, failures: list[Failure], waiting: list[Standstill], run: Any = None):
        self.failures, self.waiting = failures, waiting
        causes = [f for f in failures if not f.secondary]
        parts = _told_once(causes or failures)
        if waiting or len(causes) < len(failures):
            names = sorted({w.rank for w in waiting} | {f.rank for f in failures if f.secondary and causes})
            if names:
                culprits = ranks_in_words(sorted({f.rank for f in causes or failures}))
                parts.append(f"{ranks_in_words(names)} only waited for {culprits}:")
                parts += [f"  {w}" for w in waiting]
        super().__init__("\n  ".join(parts), run)


class Deadlock(RanksError):
    """Ranks that can never go on. `kind` names the pattern, `standstills` who waits where, `fix` what would help."""

    def __init__(self, kind: str, headline: str, standstills: list[Standstill], fix: str, run: Any = None):
        self.kind, self.headline, self.standstills, self.fix = kind, headline, standstills, fix
        lines = [headline, *(f"  {s}" for s in standstills), *wrap(f"Likely fix: {fix}", WIDTH)]
        super().__init__("\n  ".join(lines), run)


class Mismatch(Deadlock):
    """Ranks met in one call but disagree about it: a hang, a crash or a silently wrong answer, now or later."""


class DeadlineExceeded(RanksError):
    """The run was not over in time. `stacks`: what each unfinished rank was doing, innermost line last."""

    def __init__(self, timeout_s: float, stacks: dict[int, list[Line]], waiting: list[Standstill],
                 run: Any = None):
        self.stacks = stacks
        super().__init__(f"not finished after {timeout_s:g} s (timeout_s). {_where_they_are(stacks, waiting)}", run)


class Stopped(ShowsItself, KeyboardInterrupt):
    """The run was interrupted, by JupyterLab's stop button or Ctrl-C: where its ranks were."""

    def __init__(self, stacks: dict[int, list[Line]], waiting: list[Standstill]):
        super().__init__(f"the run was interrupted, and its ranks are ended. {_where_they_are(stacks, waiting)}")


def _where_they_are(stacks: dict[int, list[Line]], waiting: list[Standstill]) -> str:
    parts = ["Each unfinished rank's stack:"]
    for rank, lines in sorted(stacks.items()):
        shown = [f"      {line}" for line in lines] or ["      (no answer: it is inside one long call)"]
        parts += [f"  rank {rank}:", *shown]
    return "\n".join([*parts, *(f"  {w}" for w in waiting if w.rank not in stacks)])


def _told_once(failures: list[Failure]) -> list[str]:
    """The failures in words; those that differ in nothing but the rank, together."""
    alike: dict[tuple, list[Failure]] = defaultdict(list)
    for failure in failures:
        alike[failure.kind, failure.message, failure.lines].append(failure)
    told = []
    for first, *others in alike.values():
        ranks = ranks_in_words(sorted(failure.rank for failure in (first, *others)))
        told.append(str(first).replace(f"rank {first.rank}:", f"{ranks}:", 1))
    return told


def ranks_in_words(numbers: list[int]) -> str:
    """"rank 2", "ranks 0 and 2", "ranks 0–3"."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:
        return f"ranks {numbers[0]}–{numbers[-1]}"
    return "ranks " + ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
