"""Gather: the root collects one row from every rank, itself included."""

from __future__ import annotations

import torch

from grader.exercises.shared.cases import each_rank, rooted_cases, total, xs_of
from grader.exercises.shared.collectives import is_root, message_to_itself, result_at_zero, result_everywhere
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_point_to_point, results_waited, sends_waited, tensor_bytes
from grader.judging.exercise import Case, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, group_ignored, unwaited, wrong_ranks


def _collected(case: Case, rank: int) -> torch.Tensor | None:
    return torch.stack(xs_of(case, rank)) if case.group_rank(rank) == case.inputs[rank]["root"] else None


def _only_own_row_is_wrong(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    others = [i for i in range(len(expected)) if i != look.case.inputs[rank]["root"]]
    return found.shape == expected.shape and same(found[others], expected[others])


def _same_rows_in_other_order(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.shape == expected.shape and sorted(found.tolist()) == sorted(expected.tolist())


EXERCISE = Exercise(
    title="Gather",
    parameters=("x_C", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16),
    oracle=each_rank(_collected),
    points={"values": 1, "technique": 1},
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: 0 if is_root(look, r) else tensor_bytes(look, r),
                   "each rank sends its row to the root, the root sends nothing",
                   "The root has all rows, but more than that travelled: each other rank sends its own C elements "
                   "once, and the root sends nothing.", id="more than the rows"),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        message_to_itself("The root sends to itself, and such a message never arrives: it copies its own row into "
                          "the result without any message."),
        group_ignored(),
        result_at_zero(),
        result_everywhere(),
        deadlocked("send without receive", "Some ranks send a row that the root never receives: it must receive from "
                                           "every other rank of the group, however many there are.",
                   id="not received from all"),
        unwaited(),
        Symptom("summed", "The root returns the sum of the rows: that is a reduce. A gather keeps every row, (N, C).",
                wrong_ranks(lambda look, r, found, _: same(found, total(xs_of(look.case, r))))),
        Symptom("root's row missing", "The other ranks' rows are right, the root's own is not: nobody sends it, so "
                                      "the root copies its x_C into row root itself.",
                wrong_ranks(_only_own_row_is_wrong)),
        Symptom("rows out of order", "All rows are there, but not in the order of the ranks: row i comes from rank "
                                     "i, whoever is the root and in whatever order the rows arrive.",
                wrong_ranks(_same_rows_in_other_order)),
        Symptom("one buffer", "All rows are equal: they share one receive buffer, which holds the last arrival. "
                              "Receive into a row of its own each time.",
                wrong_ranks(lambda look, r, found, _: len(torch.as_tensor(found[1:]).unique(dim=0)) == 1)),
    ),
    ),
)
