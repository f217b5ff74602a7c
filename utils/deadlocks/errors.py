"""What can go wrong in a run, as few exceptions that show themselves in the student's words."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from utils.languages.choice import translated
from utils.trace.source import Line

WIDTH = 88  # JupyterLab breaks longer lines in the middle of a word
FEW = 8  # ranks, or kinds of standstill, that are told one by one
FIRST = 3  # of more ranks that stand alike
SHORT = 200  # characters
_WHERE_IN_TORCH = re.compile(r"\[\S*\.(cc|cpp|h):\d+\]|\[[\da-fA-F.:]+\]:\d+")
_ADDRESS = re.compile(r" object at 0x[0-9a-f]+")
_NUMBER = re.compile(r"(\d+)")
_OTHER_RANKS = re.compile(r"\branks? [\d–, and]+(others)?|\b(src|dst)=\d+")


@dataclass(frozen=True)
class Related:
    """An error that another came from, or a part of it. why: "caused by", "2 of 3"; depth: 0 if of the rank's own error."""

    why: str
    depth: int
    kind: str
    message: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        left = 4 * self.depth
        return f"{' ' * left}{self.why}: {_told(self.kind, self.message, self.lines, self.notes, left + 10)}"


@dataclass(frozen=True)
class Failure:
    """One rank's own error."""

    rank: int
    kind: str  # the exception's class, or "died"
    message: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    secondary: bool = False  # only a consequence of another rank's end
    related: tuple[Related, ...] = ()

    def __str__(self) -> str:
        told = _told(self.kind, _ADDRESS.sub('', self.message), self.lines, self.notes, 6)
        return f"rank {self.rank}: {told}" + "".join(f"\n      {other}" for other in self.related)

    def in_short(self) -> "Standstill":
        """The first sentence of a secondary one, without where in torch it arose and which connection it was."""
        first = re.split(r"\s*(?:\.\s|\n|$)", _WHERE_IN_TORCH.sub("", self.message).strip(), maxsplit=1)[0]
        line = self.lines[-1] if self.lines else None
        return Standstill(self.rank, f"got {self.kind}: {first[:SHORT]}".rstrip(": "), line)

    def is_like(self, other: "Failure") -> bool:
        """Whether the two differ in nothing but their ranks' numbers."""
        if (self.kind, self.lines, self.related) != (other.kind, other.lines, other.related):
            return False
        ours, theirs = (_NUMBER.split(_ADDRESS.sub("", failure.message)) for failure in (self, other))
        return len(ours) == len(theirs) and all(
            a == b or (a, b) == (str(self.rank), str(other.rank)) for a, b in zip(ours, theirs, strict=True))


@dataclass(frozen=True)
class Standstill:
    """Where one rank stood, in words."""

    rank: int
    what: str
    line: Line | None = None

    def __str__(self) -> str:
        return f"rank {self.rank} {self.what}" + (f"\n      {self.line}" if self.line else "")

    @property
    def kind(self) -> tuple:
        """The same for ranks that stand at one line in one call, whoever their partners are."""
        return _OTHER_RANKS.sub("", self.what), self.line


def _told(kind: str, message: str, lines: Iterable[Line], notes: Iterable[str], indent: int) -> str:
    """A class and its message, and below it, so far from the left, lines and notes."""
    return f"{kind}: {message}".rstrip(": ") + "".join(f"\n{' ' * indent}{each}" for each in (*lines, *notes))


class ShowsItself:
    """An exception whose words are enough: IPython shows them without our own frames, which say nothing to the reader."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {translated(str(self))}"]


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
                consequences = [failure.in_short() for failure in failures if failure.secondary and causes]
                parts += _in_few(sorted([*waiting, *consequences], key=lambda stands: stands.rank))
        super().__init__("\n  ".join(parts), run)


class Deadlock(RanksError):
    """Ranks that can never go on. `kind` names the pattern, `standstills` who waits where, `fix` what would help."""

    def __init__(self, kind: str, headline: str, standstills: list[Standstill], fix: str, run: Any = None):
        self.kind, self.headline, self.standstills, self.fix = kind, headline, standstills, fix
        lines = [headline, *_in_few(standstills), *wrap(f"Likely fix: {fix}", WIDTH)]
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
    return "\n".join([*parts, *_in_few(w for w in waiting if w.rank not in stacks)])


def _in_few(standstills: Iterable[Standstill]) -> list[str]:
    """A paragraph each; of many that are alike the first ones and a count, so that a thousand ranks fit on a screen."""
    alike: dict[tuple, list[Standstill]] = defaultdict(list)
    for stands in standstills:
        alike[stands.kind].append(stands)
    told: list[str] = []
    for kind in itertools.islice(alike.values(), FEW):
        shown = kind if len(kind) <= FEW else kind[:FIRST]
        told += [f"  {stands}" for stands in shown]
        if len(shown) < len(kind):
            told.append(f"  and {len(kind) - FIRST:,} other ranks likewise")
    elsewhere = sum(map(len, itertools.islice(alike.values(), FEW, None)))
    return told + [f"  and {elsewhere:,} other ranks, each in another way"] * (elsewhere > 0)


def _told_once(failures: list[Failure]) -> list[str]:
    """The failures in words; those that differ in nothing but the rank, together."""
    alike: list[list[Failure]] = []
    for failure in failures:
        like_it = next((each for each in alike if failure.is_like(each[0])), None)
        if like_it is None:
            alike.append([failure])
        else:
            like_it.append(failure)
    told = []
    for first, *others in alike:
        ranks = ranks_in_words(sorted(failure.rank for failure in (first, *others)))
        told.append(str(first).replace(f"rank {first.rank}:", f"{ranks}:", 1))
    return told


def ranks_in_words(numbers: list[int]) -> str:
    """"rank 2", "ranks 0 and 2", "ranks 0–3"; of many "ranks 0–511 and 513–1023", or the first ones and a count."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:
        return f"ranks {numbers[0]}–{numbers[-1]}"
    parts = list(map(str, numbers)) if len(numbers) <= 2 * FEW else _stretches(numbers)
    return "ranks " + ", ".join(parts[:-1]) + f" and {parts[-1]}"


def _stretches(numbers: list[int]) -> list[str]:
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][-1] + 1:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    told = [f"{first}–{rest[-1]}" if rest else str(first) for first, *rest in stretches[:FEW]]
    others = sum(map(len, stretches[FEW:]))
    return told + [f"{others:,} others"] * (others > 0)
