"""The schedules that students generate: for cases and results only, since what symptoms use is in students' copies too."""

from __future__ import annotations

from grader.exercises.shared.schedule_oracle import Rows
from utils.schedules.schedule import Step


def gpipe(n_stages: int, n_micro: int) -> Rows:
    return [[Step(kind, micro, stage) for kind in "FB" for micro in range(n_micro)] for stage in range(n_stages)]


def one_f_one_b(n_stages: int, n_micro: int, extra: int = 0) -> Rows:
    """extra: how many more forwards come first than need be."""
    rows = []
    for stage in range(n_stages):
        first = min(n_stages - 1 - stage + extra, n_micro)
        steady = [Step(kind, micro, stage) for one in range(n_micro - first)
                  for kind, micro in (("F", first + one), ("B", one))]
        rows.append([Step("F", micro, stage) for micro in range(first)] + steady
                    + [Step("B", micro, stage) for micro in range(n_micro - first, n_micro)])
    return rows


def interleaved(n_ranks: int, n_chunks: int, n_micro: int) -> Rows:
    """Narayanan et al., arXiv 2104.04473, section 2.2: groups of n_ranks micro-batches, chunk after chunk."""
    order = [(chunk, first + one) for first in range(0, n_micro, n_ranks) for chunk in range(n_chunks)
             for one in range(n_ranks)]
    rows = []
    for rank in range(n_ranks):
        forward = [Step("F", micro, chunk * n_ranks + rank) for chunk, micro in order]
        backward = [Step("B", micro, (n_chunks - 1 - chunk) * n_ranks + rank) for chunk, micro in order]
        first = min(2 * (n_ranks - 1 - rank) + (n_chunks - 1) * n_ranks, len(order))
        pairs = zip(forward[first:], backward, strict=False)
        rows.append(forward[:first] + [step for pair in pairs for step in pair] + backward[len(order) - first:])
    return rows


def zero_bubble(n_stages: int, n_micro: int) -> Rows:
    """ZB-H1 of Qi et al., arXiv 2401.10241: 1F1B whose weights' gradients come `rank` micro-batches later."""
    rows = []
    for rank, steps in enumerate(one_f_one_b(n_stages, n_micro)):
        row, done = [], 0
        for kind, micro, stage in steps:
            row.append(Step("F" if kind == "F" else "I", micro, stage))
            if kind == "B" and micro >= rank:
                row.append(Step("W", done, stage))
                done += 1
        rows.append(row + [Step("W", micro, rank) for micro in range(done, n_micro)])
    return rows
