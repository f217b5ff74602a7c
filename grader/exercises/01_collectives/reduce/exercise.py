"""Reduce: the broadcast tree backwards, adding on the way; ⌈log2 n⌉ rounds."""

import torch

from grader.exercises.shared.cases import each_rank, rooted_cases, total, xs_of
from grader.exercises.shared.collectives import MEAN_FOR_SUM, RESULT_AT_ZERO, neighbour_x, on_root
from grader.judging.exercise import Case, Exercise, Slip


def _of_direct_senders(case: Case, rank: int, right: torch.Tensor) -> torch.Tensor:
    """The root and those that send to it, which are 1, 2, 4, … places further on."""
    rounds = (case.group_size(rank) - 1).bit_length()
    return total([case.inputs[rank]["x"], *(neighbour_x(case, rank, 2**k) for k in range(rounds))])


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
        Slip("nothing added", "The root still holds its own x: nothing that it received was added.",
             on_root(lambda case, r, right: case.inputs[r]["x"])),
    ),
)
