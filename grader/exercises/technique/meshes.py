"""Demands that exercises on a mesh of ranks share. A case's inputs["lines"]: axis → the ranks of each of its groups."""

from collections.abc import Sequence

from grader.calling.numberless import NUMBERS
from grader.exercises.technique.rank_by_rank import on_each_rank, the_mark
from grader.judging.exercise import Demand, Look
from utils.trace.trace import Call


def line_in(look: Look, rank: int, axis: str) -> tuple[int, ...]:
    """The ranks of this rank's group along an axis."""
    return next(tuple(line) for line in look.case.inputs[rank]["lines"][axis] if rank in line)


def messages(look: Look, rank: int) -> list[Call]:
    """A rank's calls but for the making of groups."""
    return [call for call in look.evidence.trace.of(rank) if call.op != "new_group"]


def only_along(axes: Sequence[str]) -> Demand:
    """Every call is on this rank's group along one of these axes."""

    def stray(look: Look, rank: int) -> str:
        allowed = {line_in(look, rank, axis) for axis in axes}
        call = next((call for call in messages(look, rank) if call.members not in allowed), None)
        return f"rank {rank} called {call.op} on ranks {', '.join(map(str, call.members))}" if call else ""

    return Demand("outside its lines", f"calls only along {', '.join(axes)}", on_each_rank(stray), forbids=True)


def numbers_left() -> Demand:
    """No tensor is asked for its numbers, so that the function can be simulated."""

    def asked(look: Look, rank: int) -> str:
        by = the_mark(look, rank, NUMBERS)["by"]
        return f"rank {rank} asked a tensor for its numbers by {', '.join(by)}" if by else ""

    return Demand("numbers asked for", "no tensor is asked for its numbers", on_each_rank(asked))
