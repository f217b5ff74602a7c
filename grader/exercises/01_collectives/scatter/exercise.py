"""Scatter: the root hands out the rows of x; only the (n−1)·C elements that others need leave it."""

from grader.exercises.shared.cases import each_rank, rooted_cases
from grader.exercises.shared.collectives import root_is_zero, root_x
from grader.judging.exercise import Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """On three ranks the rows are of bools; on five each is a row of one element."""
    cases = rooted_cases(draw, grading, lambda n, k: (n, 1 if n == 5 else k))
    return [_of_bools(case) if case.world_size == 3 else case for case in cases]


def _of_bools(case: Case) -> Case:
    return Case(f"{case.name}, bool", tuple(inputs | {"x": inputs["x"] > 0} for inputs in case.inputs))


EXERCISE = Exercise(
    title="Scatter",
    parameters=("x_NC", "root", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: root_x(case, r)[case.group_rank(r)]),
    points={"values": 1, "technique": 1},
    slips=(
        root_is_zero(lambda x_NC, group_rank: x_NC[group_rank]),
        Slip("own row", "Ranks returned a row of their own x_NC: outside the root it is only a placeholder, so receive "
                        "the row from the root.", lambda case, r, right: case.inputs[r]["x"][case.group_rank(r)]),
        Slip("same row for all", "Every rank holds row 0: the root sends rank i row i.",
             lambda case, r, right: root_x(case, r)[0]),
        Slip("columns", "Rank i holds column i: the root sends rows, x_NC[i], not x_NC[:, i].",
             lambda case, r, right: root_x(case, r)[:, case.group_rank(r)],
             shows=lambda case: all(case.group_size(r) <= case.inputs[r]["x"].shape[1] for r in range(case.world_size))),
        Slip("whole x", "Ranks returned all of x_NC: each keeps one row of it, C elements.",
             lambda case, r, right: root_x(case, r)),
        Slip("row squeezed to a number", "A row of one element came back as a number, of shape (): squeeze() takes away "
             "every axis of size 1. Take the row by its number, x_NC[i], and its shape stays (C,).",
             lambda case, r, right: right[r].squeeze()),
    ),
)
