"""Broadcast along a binomial tree: ⌈log2 n⌉ rounds, since everyone who has x passes it on."""

import torch

from grader.exercises.shared.cases import each_rank, rooted_cases
from grader.exercises.shared.collectives import OWN_X_RETURNED, root_is_zero, root_x
from grader.judging.exercise import Case, Exercise, Slip


def _rounded_down(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """After ⌊log2 n⌋ rounds, a power of two of ranks have x, counted from the root."""
    inputs, n = case.inputs[rank], case.group_size(rank)
    reached = 2 ** (n.bit_length() - 1)
    return right[rank] if (case.group_rank(rank) - inputs["root"]) % n < reached else inputs["x"]


EXERCISE = Exercise(
    title="Broadcast along a tree",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16, largest=8),
    oracle=each_rank(root_x),
    slips=(
        root_is_zero(),
        Slip("a round is missing", "Some ranks never got x: the tree needs log2 n rounds, rounded up (3 ranks need 2, 5 "
                                   "ranks need 3).", _rounded_down),
        OWN_X_RETURNED,
    ),
)
