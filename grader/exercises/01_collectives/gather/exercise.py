"""Gather: the root collects one row from every rank, itself included."""

import torch

from grader.exercises.shared.cases import each_rank, rooted_cases, xs_of
from grader.exercises.shared.collectives import RESULT_AT_ZERO, on_root
from grader.judging.exercise import Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """float64 has more digits than float32 can hold."""
    cases = rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16)
    return [_thirds(case) if "float64" in case.name else case for case in cases]


def _thirds(case: Case) -> Case:
    return Case(case.name, tuple(inputs | {"x": inputs["x"] / 3} for inputs in case.inputs))


def _collected(case: Case, rank: int) -> torch.Tensor | None:
    return torch.stack(xs_of(case, rank)) if case.group_rank(rank) == case.inputs[rank]["root"] else None


def _last_arrival(case: Case, rank: int, rows_NC: torch.Tensor) -> torch.Tensor:
    """All rows but the root's are the one that was received last."""
    root = case.inputs[rank]["root"]
    last = max((peer for peer in range(len(rows_NC)) if peer != root), default=root)
    return torch.stack([rows_NC[root if peer == root else last] for peer in range(len(rows_NC))])


EXERCISE = Exercise(
    title="Gather",
    parameters=("x_C", "root", "group"),
    make_cases=_cases,
    oracle=each_rank(_collected),
    points={"values": 1, "technique": 1},
    slips=(
        RESULT_AT_ZERO,
        Slip("summed", "The root returns the sum of the rows: that is a reduce. A gather keeps every row, (N, C).",
             on_root(lambda case, r, rows_NC: rows_NC.sum(0))),
        Slip("columns", "The rows lie as columns, (C, N); wanted is (N, C), one row a rank, as torch.stack makes it.",
             on_root(lambda case, r, rows_NC: rows_NC.T)),
        Slip("one buffer", "All rows are equal: they share one receive buffer, which holds the last arrival. Receive "
                           "into a row of its own each time.", on_root(_last_arrival)),
    ),
)
