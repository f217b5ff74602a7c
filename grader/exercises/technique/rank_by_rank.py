"""What demands are made of that look at one rank after another: the first fault, and what a rank marked in its trace."""

from collections.abc import Callable
from typing import Any, NoReturn

from grader.judging.demands import NotSeen
from grader.judging.exercise import Look
from utils.trace.trace import Call, Span


def on_each_rank(fault: Callable[[Look, int], str]) -> Callable[[Look], tuple[bool, str]]:
    """A demand's judge. fault(look, rank): what is wrong on a rank that takes part, in a few words; empty if nothing is."""

    def judge(look: Look) -> tuple[bool, str]:
        first_fault = next(filter(None, (fault(look, rank) for rank in look.working)), "")
        return not first_fault, first_fault

    return judge


def spans_called(look: Look, rank: int, name: str) -> list[Span]:
    """One rank's spans and marks of this name, in order; one at least.  Raises: NotSeen if there is none."""
    return spans_if_any(look, rank, name) or not_seen(rank, name)


def the_mark(look: Look, rank: int, name: str) -> dict[str, Any]:
    """The facts of a mark that a rank makes once.  Raises: NotSeen if there is none, or another beside it."""
    marks = spans_called(look, rank, name)
    return marks[0].facts if len(marks) == 1 else not_seen(rank, f"{name} (once)")


def spans_if_any(look: Look, rank: int, name: str) -> list[Span]:
    """The same where it is in order that there is none, or where something else is said of it."""
    return [span for span in look.evidence.trace.spans if span.rank == rank and span.name == name]


def barriers(look: Look, rank: int) -> list[Call]:
    """Where a rank stood until all others had come; with gloo also until all that it had begun before was through."""
    return [call for name in ("barrier", "monitored_barrier") for call in look.evidence.trace.of(rank, name)]


def late_ranks(look: Look) -> list[int]:
    """The ranks that take part and come late, in cases where one does."""
    return [rank for rank in look.working if look.case.late_s and look.case.late_s[rank]]


def not_seen(rank: int, name: str) -> NoReturn:
    """Raises: NotSeen of a mark, or something else that tells what a rank did."""
    raise NotSeen(f"rank {rank}: {name!r} was not seen")
