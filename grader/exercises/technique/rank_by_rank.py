"""What demands are made of that look at one rank after another: the first fault, and what a rank marked in its trace."""

from collections.abc import Callable

from grader.judging.exercise import Look
from utils.trace.trace import Span


def on_each_rank(fault: Callable[[Look, int], str]) -> Callable[[Look], tuple[bool, str]]:
    """A demand's judge. fault(look, rank): what is wrong on a rank that takes part, in a few words; empty if nothing is."""

    def judge(look: Look) -> tuple[bool, str]:
        first_fault = next(filter(None, (fault(look, rank) for rank in look.working)), "")
        return not first_fault, first_fault

    return judge


def spans_called(look: Look, rank: int, name: str) -> list[Span]:
    """One rank's spans and marks of this name, in order."""
    return [span for span in look.evidence.trace.spans if span.rank == rank and span.name == name]
