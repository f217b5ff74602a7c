"""Ranks in a grid: a group for each row and each column, an all-reduce in both."""

from __future__ import annotations

from collections.abc import Sequence

from grader.demands import only_calls
from grader.evidence import DEADLOCKED, RAISED
from grader.exercise import Case, Demand, Draw, Exercise, Look, Symptom
from grader.exercises.u01_collectives.hints import swapped
from grader.exercises.u01_collectives.inputs import total
from grader.symptoms import same, wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    grids = [(1, 1), (1, 3), (2, 2), (2, 3), (3, 2)] + [(4, 1), (2, 4)] * grading
    return [Case(f"{n_rows} × {n_cols} grid", tuple(
        {"x": x, "n_rows": n_rows, "n_cols": n_cols} for x in draw.tensors(n_rows * n_cols, draw.integer(1, 4))))
        for n_rows, n_cols in grids]


def _line(case: Case, rank: int, column: bool) -> list[int]:
    """The ranks of `rank`'s row or column."""
    n_rows, n_cols = case.inputs[0]["n_rows"], case.inputs[0]["n_cols"]
    if column:
        return [row * n_cols + rank % n_cols for row in range(n_rows)]
    return [rank // n_cols * n_cols + col for col in range(n_cols)]


def _sum(case: Case, ranks: Sequence[int]):
    return total([case.inputs[rank]["x"] for rank in ranks])


def _square(case: Case) -> bool:
    return case.inputs[0]["n_rows"] == case.inputs[0]["n_cols"]


def _one_sum_is_of_all(look: Look, rank: int, found, expected) -> bool:
    return min(len(_line(look.case, rank, column)) for column in (False, True)) > 1 and any(
        same(found[i], expected[i]) and same(found[1 - i], _sum(look.case, range(look.case.world_size))) for i in (0, 1))


def _both_sums_are_of_all(look: Look, rank: int, found, expected) -> bool:
    return min(len(_line(look.case, rank, column)) for column in (False, True)) > 1 and same(
        found[0], found[1]) and same(found[0], _sum(look.case, range(look.case.world_size)))


def _in_lines(look: Look) -> tuple[bool, str]:
    for call in look.evidence.trace.of(op="all_reduce"):
        if list(call.members) not in (_line(look.case, call.rank, False), _line(look.case, call.rank, True)):
            return False, f"rank {call.rank} called all_reduce with ranks {list(call.members)}"
    return True, ""


def _columns_as_rows(case: Case, rank: int) -> list[int]:
    """The ranks of one row if the grid were numbered down its columns."""
    n_rows = case.inputs[0]["n_rows"]
    return [r for r in range(case.world_size) if r % n_rows == rank % n_rows]


EXERCISE = Exercise(
    id="grid_sums",
    unit="01_collectives",
    title="Sums over rows and columns of a grid of ranks",
    parameters=("x", "n_rows", "n_cols"),
    make_cases=_cases,
    oracle=lambda case: [(_sum(case, _line(case, r, False)), _sum(case, _line(case, r, True)))
                         for r in range(case.world_size)],
    adapter="call_plain",
    demands=(
        only_calls("all_reduce", hint="Make the groups with dist.new_group and use dist.all_reduce in them, nothing "
                                      "else."),
        Demand("whole world", "every all_reduce stays in one row or one column",
               "The sums are right, but ranks outside the row or column take part: give all_reduce the group of this "
               "rank's row or column.", _in_lines),
    ),
    symptoms=(
        Symptom("not everyone makes every group",
                "Ranks call new_group with different lists, or not equally often: every rank "
                "must call it for all rows and all columns, in the same order, also for those that it is not in.",
                lambda look: look.evidence.ending in (DEADLOCKED, RAISED) and "new_group" in look.evidence.error),
        Symptom("not in the group", "A rank called a collective of a group that it is not in: make all groups, then "
                                    "use only the one of this rank's own row and the one of its own column.",
                lambda look: look.evidence.ending in (DEADLOCKED, RAISED) and (
                    "not part of group" in look.evidence.error or "GroupMember" in look.evidence.error)),
        Symptom("rows and columns swapped",
                "The two sums are each other's: ranks of a row share rank // n_cols, ranks of a column share rank % "
                "n_cols, and the row sum comes first.",
                wrong_ranks(lambda look, *pair: not _square(look.case) and swapped(look, *pair))),
        Symptom("second sum of the first", "One sum is right, the other is that of all ranks: it was made from a tensor "
                                           "that already held a sum, since all_reduce overwrites its argument; start "
                                           "both from x.clone().", wrong_ranks(_one_sum_is_of_all)),
        Symptom("same tensor twice", "Both results hold the sum of all ranks: they are one tensor, which two all_reduces "
                                     "have overwritten in turn; start each sum from its own x.clone().",
                wrong_ranks(_both_sums_are_of_all)),
        Symptom("wrong grid", "The grid is numbered along its rows: rank = row·n_cols + col, so row, col = "
                              "divmod(rank, n_cols). Dividing by n_rows gives another grid unless it is square.",
                wrong_ranks(lambda look, r, found, _: any(
                    same(one, _sum(look.case, _columns_as_rows(look.case, r))) for one in found))),
    ),
)
