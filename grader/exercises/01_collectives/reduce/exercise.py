"""Reduce: the broadcast tree backwards, adding on the way; ⌈log2 n⌉ rounds."""

from collections.abc import Callable

import torch

from grader.exercises.shared.cases import each_rank, rooted_cases, total, xs_of
from grader.exercises.shared.collectives import MEAN_FOR_SUM, RESULT_AT_ZERO, neighbour_x, on_root
from grader.judging.exercise import Case, Exercise, Slip, Wrong


def _of_direct_senders(case: Case, rank: int, right: torch.Tensor) -> torch.Tensor:
    """The root and those that send to it, which are 1, 2, 4, … places further on."""
    rounds = (case.group_size(rank) - 1).bit_length()
    return total([case.inputs[rank]["x"], *(neighbour_x(case, rank, 2**k) for k in range(rounds))])


def _of_places(chosen: Callable[[int, int], bool]) -> Wrong:
    """The root holds the sum over places, counted from the root, with chosen(place, n)."""
    return on_root(lambda case, rank, right: total([
        neighbour_x(case, rank, place) for place in range(case.group_size(rank)) if chosen(place, case.group_size(rank))]))


EXERCISE = Exercise(
    title="Reduce along a tree",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16, largest=8),
    oracle=each_rank(lambda case, r: total(xs_of(case, r)) if case.group_rank(r) == case.inputs[r]["root"] else None),
    slips=(
        RESULT_AT_ZERO,
        MEAN_FOR_SUM,
        Slip("partial sums lost", "The root added only what its direct partners had at the start: a rank must send the "
                                  "sum of its x and all that it has received, not x alone.", on_root(_of_direct_senders)),
        *(Slip("a round is missing", "The sum lacks the ranks of a whole round: the tree needs log2 n rounds, rounded up (3 "
               "ranks need 2, 5 ranks need 3), down to round 0, in which place 1 sends to the root.", _of_places(chosen))
          for chosen in (lambda place, n: place < 1 << n.bit_length() - 1, lambda place, n: place < 4,
                         lambda place, n: place % 2 == 0)),
        Slip("nothing added", "The root still holds its own x: nothing that it received was added.",
             on_root(lambda case, r, right: case.inputs[r]["x"])),
    ),
)
