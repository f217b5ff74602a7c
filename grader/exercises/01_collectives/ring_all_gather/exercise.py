"""Ring all-gather: n−1 steps, one row a step; (n−1)/n·M bytes a rank."""

from __future__ import annotations

import torch

from grader.exercises.shared.cases import each_rank, one_tensor_cases, xs_of
from grader.exercises.shared.collectives import neighbour_x, one_step_too_many, ring_is_open, ring_stands
from grader.judging.compare import same
from grader.judging.demands import (
    bytes_sent,
    group_size,
    only_point_to_point,
    results_waited,
    ring_neighbours,
    sends_waited,
    shared_work,
    tensor_bytes,
)
from grader.judging.exercise import Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks


def _others_are(shift: int):
    """All rows but the own one hold x of one neighbour."""

    def test(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
        others = [i for i in range(len(expected)) if i != look.case.group_rank(rank)]
        return len(others) > 1 and same(found[others], neighbour_x(look, rank, shift).expand(len(others), -1))

    return wrong_ranks(test)


def _rows(index) -> Symptom:
    return wrong_ranks(lambda look, r, found, _: same(found, torch.stack(
        [neighbour_x(look, r, index(s, look.case.group_rank(r))) for s in range(group_size(look, r))])))


EXERCISE = Exercise(
    title="Ring all-gather",
    parameters=("x_C", "group"),
    make_cases=lambda draw, grading: one_tensor_cases(draw, grading, lambda n, k: (k,)),
    oracle=each_rank(lambda case, r: torch.stack(xs_of(case, r))),
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: (group_size(look, r) - 1) * tensor_bytes(look, r),
                   "at most (n−1)·C elements = (n−1)/n·M",
                   "All rows arrive, but whole tensors travel: in each step pass on one row, the one that came last.",
                   id="whole tensors"),
        ring_neighbours(),
        shared_work(),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        one_step_too_many(),
        ring_is_open(),
        ring_stands(),
        group_ignored(),
        unwaited(),
        Symptom("own row again and again",
                "All rows but your own hold the left neighbour's: from the second step on pass on the row that "
                "arrived last, not your own again.", _others_are(-1)),
        Symptom("one buffer", "All rows but your own are equal, to what arrived last: they share one receive buffer. "
                              "Receive into the row of the result, or copy what arrived.", _others_are(1)),
        Symptom("order of arrival", "All rows are there, but in the order of arrival: what arrives in step s left "
                                    "rank r−s−1, so it is row (r−s−1) mod n.", _rows(lambda s, r: -s)),
        Symptom("rows shifted by one", "All rows are there, but each stands one place off: what arrives in step s "
                                       "left rank r−s−1, so it is row (r−s−1) mod n.",
                lambda look: _rows(lambda s, r: s - r + 1)(look) or _rows(lambda s, r: s - r - 1)(look)),
        Symptom("a row missing", "One row never arrived: n−1 steps are needed, one for each other rank.",
                wrong_ranks(lambda look, r, found, expected: found.shape == expected.shape
                            and (found != expected).any(1).sum() == 1)),
    ),
    ),
)
