"""A slip: a known mistake as data, recognised by what it makes of the right results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grader.evidence.case import Case
from grader.judging.compare import same
from grader.judging.trial import Trial

Wrong = Callable[[Case, int, list[Any]], Any]  # (case, rank, each rank's right result) -> what the rank then returns


@dataclass(frozen=True)
class Slip:
    """A known mistake. `hint` is the lesson.

    wrong: what a rank returns that makes this mistake; ANYTHING stands for parts that it leaves open.
    shows: the cases in which it could show; of these it does show where any rank's result is another than the right one.
    """

    id: str
    hint: str
    wrong: Wrong
    shows: Callable[[Case], bool] = lambda case: True

    def results(self, trial: Trial) -> list[Any] | None:
        """What each rank returns that makes this mistake, None for a bystander; None in all where it does not show."""
        if not self.shows(trial.case):
            return None
        working = trial.working
        wrong = [self.wrong(trial.case, rank, trial.right) if rank in working else None
                 for rank in range(trial.case.world_size)]
        return None if all(same(wrong[rank], trial.right[rank]) for rank in working) else wrong


def alike(one: Slip, other: Slip, trials: Sequence[Trial]) -> bool:
    """Whether nothing tells two slips apart in these trials."""
    return all(_equal(one.results(trial), other.results(trial)) for trial in trials)


def _equal(some: list[Any] | None, others: list[Any] | None) -> bool:
    if some is None or others is None:
        return some is others
    return all(same(a, b) or same(b, a) for a, b in zip(some, others, strict=True))


# ── mistakes that many exercises know ──


def times(id: str, factor: Callable[[Case, int], float], hint: str) -> Slip:
    """Tensors (alone, or all that a list or dictionary holds) that are factor(case, rank) times too large."""
    return Slip(id, hint, lambda case, rank, right: _scaled(right[rank], factor(case, rank)))


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, dict):
        return {key: _scaled(one, factor) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scaled(one, factor) for one in value]
    return value * factor if isinstance(value, torch.Tensor) else value


def unchanged(hint: str, id: str = "input returned", parameter: str = "x") -> Slip:
    """Each rank returns its own input."""
    return Slip(id, hint, lambda case, rank, right: case.inputs[rank][parameter])


def of_another(id: str, shift: int, hint: str) -> Slip:
    """Each rank returns what belongs to the rank `shift` further on in its group."""

    def wrong(case: Case, rank: int, right: list[Any]) -> Any:
        members = case.members(rank)
        return right[members[(members.index(rank) + shift) % len(members)]]

    return Slip(id, hint, wrong)
