"""Scatter: the root hands out the rows of x; only the (n−1)·C elements that others need leave it."""

from __future__ import annotations

from grader.exercises.shared.cases import each_rank, rooted_cases, xs_of
from grader.exercises.shared.collectives import (
    is_root,
    message_to_itself,
    not_sent_to_all,
    root_is_zero,
    root_x,
    sends_to_root,
)
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_point_to_point, results_waited, sends_waited, tensor_bytes
from grader.judging.exercise import Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks


def _root_only_receives(look: Look) -> bool:
    return bool(goals := sends_to_root(look)) and all(goals)


EXERCISE = Exercise(
    title="Scatter",
    parameters=("x_NC", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (n, k)),
    oracle=each_rank(lambda case, r: xs_of(case, r)[case.inputs[r]["root"]][case.group_rank(r)]),
    points={"values": 1, "technique": 1},
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: tensor_bytes(look, r) * (1 - 1 / group_size(look, r)) * is_root(look, r),
                   "the root sends n−1 rows, the others nothing",
                   "Every rank has its row, but more than that travelled: the root sends rank i only row i, C "
                   "elements, and nobody else sends.", id="more than the rows"),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        message_to_itself("The root sends to itself, and such a message never arrives: it takes its own row from x_NC "
                          "without any message."),
        group_ignored(),
        root_is_zero(lambda look, r, x_NC: x_NC[look.case.group_rank(r)]),
        not_sent_to_all(),
        Symptom("gather instead", "The rows travel to the root: that is a gather. In a scatter the root sends and "
                                  "the others receive.", _root_only_receives),
        Symptom("own row", "Ranks returned a row of their own x_NC: outside the root it is only a placeholder, so "
                           "receive the row from the root.",
                wrong_ranks(lambda look, r, found, _: same(found, look.case.inputs[r]["x"][look.case.group_rank(r)]))),
        Symptom("same row for all", "Every rank holds row 0: the root sends rank i row i.",
                wrong_ranks(lambda look, r, found, _: same(found, root_x(look, r)[0]))),
        Symptom("whole x", "Ranks returned all of x_NC: each keeps one row of it, C elements.",
                wrong_ranks(lambda look, r, found, _: same(found, root_x(look, r)))),
        Symptom("row of another rank", "Rows arrived at the wrong ranks: row i belongs to rank i, whoever is the "
                                       "root and in whatever order the rows are sent.",
                wrong_ranks(lambda look, r, found, _: any(same(found, row) for row in root_x(look, r)))),
        unwaited(),
    ),
    ),
)
