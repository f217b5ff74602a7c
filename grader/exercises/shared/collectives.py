"""Slips that several exercises about collectives share, and what they are made of."""

from collections.abc import Callable
from typing import Any

import torch

from grader.calling.with_group import AGAIN
from grader.exercises.shared.cases import xs_of
from grader.judging.exercise import Case, Slip, Wrong
from grader.judging.slips import unchanged


def neighbour_x(case: Case, rank: int, shift: int) -> torch.Tensor:
    """x of the rank `shift` places further on in the group."""
    xs = xs_of(case, rank)
    return xs[(case.group_rank(rank) + shift) % len(xs)]


def written_over(hint: str) -> Slip:
    """What a call returned is what a later one did, with −x, because both lie in one place."""
    return Slip("written over", hint, lambda case, r, right: -right[r] if AGAIN in case.inputs[r] else right[r])


def root_x(case: Case, rank: int) -> torch.Tensor:
    """x of the root of `rank`'s group."""
    return xs_of(case, rank)[case.inputs[rank]["root"]]


def on_root(wrong: Callable[[Case, int, torch.Tensor], Any]) -> Wrong:
    """wrong(case, rank, right result) on the root, and None elsewhere, as it should be."""
    return lambda case, rank, right: None if right[rank] is None else wrong(case, rank, right[rank])


def root_is_zero() -> Slip:
    """All hold what group rank 0 has."""
    return Slip("root is always 0", "Everyone holds what rank 0 had: the parameter root says whose x it is, and it need "
                                    "not be 0.", lambda case, r, right: xs_of(case, r)[0])


def _at_zero(case: Case, rank: int, right: list[Any]) -> Any:
    """Group rank 0 holds the root's result."""
    root = case.members(rank)[case.inputs[rank]["root"]]
    return right[root] if case.group_rank(rank) == 0 else None


RESULT_AT_ZERO = Slip(
    "root is always 0", "The result is on rank 0: the parameter root says who gets it, and it need not be 0.", _at_zero)

MEAN_FOR_SUM = Slip(
    "mean for sum", "Every value is exactly n times too small: the sum over ranks is asked, and you divided by their "
    "number.", on_root(lambda case, r, right: right / case.group_size(r)))

# Of a broadcast whose receivers go on with what they had.
OWN_X_RETURNED = unchanged(
    "Ranks still hold their own x: receive into x itself, or return the tensor that you received into.", "own x returned")
