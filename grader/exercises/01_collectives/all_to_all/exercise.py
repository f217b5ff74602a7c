"""All-to-all: row r of every rank goes to rank r; (n−1)/n·M bytes a rank."""

from __future__ import annotations

import torch

from grader.exercises.shared.cases import each_rank, one_tensor_cases, xs_of
from grader.exercises.shared.collectives import message_to_itself, ring_stands
from grader.judging.compare import same
from grader.judging.demands import (
    bytes_sent,
    group_size,
    only_point_to_point,
    results_waited,
    sends_waited,
    shared_work,
    tensor_bytes,
)
from grader.judging.exercise import Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _received(case, rank: int) -> torch.Tensor:
    return torch.stack([x[case.group_rank(rank)] for x in xs_of(case, rank)])


def _wrong_rows(found: torch.Tensor, expected: torch.Tensor) -> list[int]:
    return [i for i in range(len(expected)) if not same(found[i], expected[i])]


def _only_neighbours_right(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    n, r = group_size(look, rank), look.case.group_rank(rank)
    right = set(range(n)) - set(_wrong_rows(found, expected))
    return n > 2 and right <= {r, (r - 1) % n, (r + 1) % n} and len(right) > 1


EXERCISE = Exercise(
    title="All-to-all",
    parameters=("x_NC", "group"),
    make_cases=lambda draw, grading: one_tensor_cases(draw, grading, lambda n, k: (n, k)),
    oracle=each_rank(_received),
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: bytes_sent_per_rank("all_to_all", tensor_bytes(look, r), group_size(look, r)),
                   "at most (n−1)/n·M bytes",
                   "The rows are right, but more travelled than needed: rank s needs only row s of your x_NC, C "
                   "elements.",
                   id="more than the rows"),
        shared_work(),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        message_to_itself("A rank sends to itself, and such a message never arrives: copy row r of x_NC into row r "
                          "of the result without any message."),
        ring_stands(),
        group_ignored(),
        unwaited(),
        Symptom("own x returned", "Each rank still holds its own x_NC: row s of the result must come from rank s.",
                wrong_ranks(lambda look, r, found, _: same(found, look.case.inputs[r]["x"]))),
        Symptom("same row to everyone", "Row s of the result is row s of rank s: every rank sent the same row, its "
                                        "own, to all (that is an all-gather). Rank s must get row s of your x_NC.",
                wrong_ranks(lambda look, r, found, _: same(found, torch.stack(
                    [x[i] for i, x in enumerate(xs_of(look.case, r))])))),
        Symptom("own row missing", "The rows from other ranks are right, the own one is not: nobody sends it, so "
                                   "copy row r of x_NC into row r of the result.",
                wrong_ranks(lambda look, r, *pair: group_size(look, r) > 1
                            and _wrong_rows(*pair) == [look.case.group_rank(r)])),
        Symptom("transposed here", "A rank cannot make the result from its own x_NC: row s of the result is row r of "
                                   "rank s's x_NC. Send row s to rank s and receive row s from it.",
                wrong_ranks(lambda look, r, found, _: same(found, look.case.inputs[r]["x"].T))),
        Symptom("order of arrival", "All rows are there, but in the order of arrival: what rank s sent belongs in "
                                    "row s of the result.",
                wrong_ranks(lambda look, r, found, expected: sorted(found.tolist()) == sorted(expected.tolist()))),
        Symptom("neighbours only", "Only rows from neighbours are right: every rank sends to every other rank, also "
                                   "where there are more than two.", wrong_ranks(_only_neighbours_right)),
    ),
    ),
)
