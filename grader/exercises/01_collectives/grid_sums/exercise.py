"""Ranks in a grid: a group for each row and each column, an all-reduce in both."""

from __future__ import annotations

from collections.abc import Sequence

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.shared.cases import total
from grader.exercises.shared.collectives import swapped
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


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


def _of_all(look: Look, rank: int, found) -> list[bool]:
    """For each of the two sums, whether it is the sum over all ranks of a grid with several rows and columns."""
    everyone = _sum(look.case, range(look.case.world_size))
    several = min(look.case.inputs[rank]["n_rows"], look.case.inputs[rank]["n_cols"]) > 1
    return [several and same(one, everyone) for one in found]


def _takes_no_part(look: Look) -> bool:
    """Members wait for one that never comes, or a rank got its own x back."""
    stands = look.evidence.ending == DEADLOCKED and "in all_reduce" in look.evidence.error
    return stands or wrong_ranks(lambda look, r, found, _: any(
        same(one, look.case.inputs[r]["x"]) for one in found))(look)


def _in_lines(look: Look) -> tuple[bool, str]:
    n_cols = look.case.inputs[0]["n_cols"]
    for call in look.evidence.trace.of(op="all_reduce"):
        rows, columns = {rank // n_cols for rank in call.members}, {rank % n_cols for rank in call.members}
        if len(rows) > 1 and len(columns) > 1:
            return False, f"rank {call.rank} called all_reduce with ranks {list(call.members)}"
    return True, ""


def _columns_as_rows(case: Case, rank: int) -> list[int]:
    """The ranks of one row if the grid were numbered down its columns."""
    n_rows = case.inputs[0]["n_rows"]
    return [r for r in range(case.world_size) if r % n_rows == rank % n_rows]


EXERCISE = Exercise(
    title="Sums over rows and columns of a grid of ranks",
    parameters=("x", "n_rows", "n_cols"),
    make_cases=_cases,
    oracle=lambda case: [(_sum(case, _line(case, r, False)), _sum(case, _line(case, r, True)))
                         for r in range(case.world_size)],
    technique=Technique(
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
        Symptom("rows and columns swapped",
                "The two sums are each other's: ranks of a row share rank // n_cols, ranks of a column share rank % "
                "n_cols, and the row sum comes first.",
                wrong_ranks(lambda look, *pair: not _square(look.case) and swapped(look, *pair))),
        Symptom("another rank's group", "Some ranks take part in no sum: each rank uses the group of its own row and that "
                                        "of its own column (with a group that it is not in, all_reduce returns at once "
                                        "and does nothing).", _takes_no_part),
        Symptom("second sum of the first",
                "One sum is right, the other is that of all ranks: it was made from a tensor that already held a "
                "sum, since all_reduce overwrites its argument; start both from x.clone().",
                wrong_ranks(lambda look, r, found, _: sum(_of_all(look, r, found)) == 1)),
        Symptom("same tensor twice", "Both results hold the sum of all ranks: they are one tensor, which two "
                                     "all_reduces have overwritten in turn; start each sum from its own x.clone().",
                wrong_ranks(lambda look, r, found, _: sum(_of_all(look, r, found)) == 2)),
        Symptom("wrong grid", "The grid is numbered along its rows: rank = row·n_cols + col, so row, col = "
                              "divmod(rank, n_cols). Dividing by n_rows gives another grid unless it is square.",
                wrong_ranks(lambda look, r, found, _: any(
                    same(one, _sum(look.case, _columns_as_rows(look.case, r))) for one in found))),
    ),
    ),
)
