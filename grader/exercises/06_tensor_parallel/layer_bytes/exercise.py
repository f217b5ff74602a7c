"""What a rank sends for one transformer layer and step under tensor parallelism: four all-reduces of the activations."""

import math
from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2048, 12288, 8), (draw.integer(2, 9), 1000, 768, 6), (4, draw.integer(100, 900), 640, 3), (1, 512, 96, 1),
             (1, 3, 5, 7)]  # the last is no whole number of bytes
    return [Case(f"{b}×{t}×{d}, {ranks(n)}", ({"batch": b, "length": t, "dim": d, "n_ranks": n},)) for b, t, d, n in sizes]


def _array_bytes(case: Case, rank: int) -> float:
    """Of the activations that are summed."""
    inputs = case.inputs[rank]
    return 2.0 * inputs["batch"] * inputs["length"] * inputs["dim"]


def _sent(case: Case, rank: int) -> float:
    n = case.inputs[rank]["n_ranks"]
    return 4 * 2 * (n - 1) / n * _array_bytes(case, rank)


def _share_rounded(case: Case, rank: int, right: list[float]) -> float:
    """2(n−1)/n of the array, to a whole number of bytes."""
    n = case.inputs[rank]["n_ranks"]
    return 4.0 * (2 * (n - 1) * _array_bytes(case, rank) // n)


def _chunk_rounded(case: Case, rank: int, right: list[float]) -> float:
    """An n-th of the array, to a whole number of bytes."""
    n = case.inputs[rank]["n_ranks"]
    return 4.0 * 2 * (n - 1) * (_array_bytes(case, rank) // n)


def _factor_rounded(case: Case, rank: int, right: list[float]) -> float:
    """2(n−1)/n, to a whole number."""
    n = case.inputs[rank]["n_ranks"]
    return 4.0 * (2 * (n - 1) // n) * _array_bytes(case, rank)


def _numbers_rounded_up(case: Case, rank: int, right: list[float]) -> float:
    """An n-th of the array, up to a whole count of its numbers."""
    n = case.inputs[rank]["n_ranks"]
    return 4.0 * 2 * (n - 1) * 2 * math.ceil(_array_bytes(case, rank) / 2 / n)


_NO_WEIGHTS = "No weight is sent: it is the activations, batch × length × dim, that are summed."

EXERCISE = Exercise(
    title="Bytes of a layer",
    forbidden=FORMULAS,
    parameters=("batch", "length", "dim", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(_sent),
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        Slip("half", "Half of it: there are four all-reduces, an f and a g each of attention and MLP, each sends 2(n−1)/n "
                     "of its array, and each number has 2 bytes. Which of these is missing?",
             lambda case, r, right: right[r] / 2),
        Slip("quarter", "A quarter of it: there are four all-reduces, one forward and one backward for attention and for "
                        "the MLP, and each sends 2(n−1)/n of its array.", lambda case, r, right: right[r] / 4),
        Slip("twice", "Twice too much: one all-reduce a *pair* of linears in each direction (g sends forward only, f "
                      "backward only, and nothing is sent between column and row); and 2 bytes a number.",
             lambda case, r, right: right[r] * 2),
        Slip("wide numbers sent", "The 4·D numbers in the middle of the MLP never travel: nothing is sent between its "
                                  "column and its row layer. What is summed has D numbers a token, before and behind it.",
             lambda case, r, right: right[r] * 2.5),
        Slip("own share sent", "A rank does not send its own share to itself: 2(n−1)/n, and nothing for one rank.",
             lambda case, r, right: 4 * 2 * _array_bytes(case, r)),
        Slip("array once", "By the ring formula an all-reduce sends 2(n−1)/n of its array's bytes, not the array once.",
             lambda case, r, right: 4 * _array_bytes(case, r)),
        Slip("array divided", "The activations that are summed are whole on every rank: their size does not fall with n.",
             lambda case, r, right: right[r] / case.inputs[r]["n_ranks"]),
        Slip("not divided by n", "In a ring each of 2(n−1) steps sends an n-th of the array: 2(n−1)/n, not 2(n−1).",
             lambda case, r, right: right[r] * case.inputs[r]["n_ranks"]),
        Slip("wrong count", "There are four all-reduces: attention and MLP have each an f, which sums in backward, and a g, "
                            "which sums in forward.", lambda case, r, right: right[r] * 1.5),
        Slip("wrong count", "There are four all-reduces: attention and MLP have each an f, which sums in backward, and a g, "
                            "which sums in forward.", lambda case, r, right: right[r] * 0.75),
        *(Slip("rounded", "Rounded: divide with /, neither up nor down; the bytes need not be a whole number.", rounded)
          for rounded in (lambda case, r, right: float(math.floor(right[r])), _share_rounded, _chunk_rounded,
                          _factor_rounded, _numbers_rounded_up)),
        Slip("weights sent", _NO_WEIGHTS, lambda case, r, right: right[r] * case.inputs[r]["dim"] / (
            case.inputs[r]["batch"] * case.inputs[r]["length"])),
        Slip("weights sent", _NO_WEIGHTS,
             lambda case, r, right: right[r] * case.inputs[r]["dim"]),
    ),
)
