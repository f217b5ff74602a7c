"""Ring reduce-scatter: n−1 steps, one chunk a step; (n−1)/n·M bytes a rank."""

from __future__ import annotations

from dataclasses import replace

from grader.exercises.shared.cases import each_rank, one_tensor_cases, total, xs_of
from grader.exercises.shared.collectives import mean_for_sum, neighbour_x, one_step_too_many, ring_is_open, ring_stands
from grader.judging.compare import same
from grader.judging.demands import (
    bytes_sent,
    group_size,
    inputs_kept,
    not_far_more_bytes,
    only_point_to_point,
    results_waited,
    ring_neighbours,
    sends_waited,
    shared_work,
    tensor_bytes,
)
from grader.judging.exercise import Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, neighbours_result, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _own_row(look: Look, rank: int, shift: int = 0):
    return neighbour_x(look, rank, shift)[look.case.group_rank(rank)]


def _needed_bytes(look: Look, rank: int) -> float:
    return bytes_sent_per_rank("reduce_scatter", tensor_bytes(look, rank), group_size(look, rank))


_WHOLE = ("The sum is right, but whole tensors travel: a ring passes one row of C elements a step, n−1 steps in all.")


def _row_of(shift: int, hint: str, id: str) -> Symptom:
    """The complete row of a neighbour; of two ranks each is the other's on both sides."""
    symptom = neighbours_result(shift, hint, id)
    return replace(symptom, matches=lambda look: max(group_size(look, r) for r in look.working) > 2
                   and symptom.matches(look))


EXERCISE = Exercise(
    title="Ring reduce-scatter",
    parameters=("x_NC", "group"),
    make_cases=lambda draw, grading: one_tensor_cases(draw, grading, lambda n, k: (n, k)),
    oracle=each_rank(lambda case, r: total(xs_of(case, r))[case.group_rank(r)]),
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(_needed_bytes, "at most (n−1)/n·M bytes", _WHOLE, id="whole tensors"),
        not_far_more_bytes(_needed_bytes, _WHOLE),
        ring_neighbours(),
        shared_work(),
        results_waited(),
        sends_waited(),
        inputs_kept("The sum is right, but x_NC was overwritten: add into a clone of it, or into what you received."),
    ),
        symptoms=(
        one_step_too_many(),
        ring_is_open(),
        ring_stands(),
        group_ignored(),
        unwaited(),
        mean_for_sum(),
        Symptom("whole sum returned", "Ranks returned all n rows: reduce-scatter leaves each rank only its own row, "
                                      "C elements.",
                wrong_ranks(lambda look, r, found, _: same(found, total(xs_of(look.case, r))))),
        Symptom("own row", "Ranks returned row r of their own x_NC, to which nothing was ever added: sending chunk "
                           "r−s in step s completes row r+1, not row r; start one chunk earlier, with r−1.",
                wrong_ranks(lambda look, r, found, _: same(found, _own_row(look, r)))),
        _row_of(1, "The sums are complete, but each rank holds the row of the next one: in step s send "
                             "chunk r−s−1, not r−s, and the last chunk to arrive is row r.",
                          id="row of the next rank"),
        _row_of(-1, "The sums are complete, but each rank holds the row of the rank before it: count the "
                              "chunks so that the last one to arrive is row r.", id="row of the rank before"),
        Symptom("partial sums not passed on",
                "Row r holds only two ranks' parts, yours and the left neighbour's: pass on the sum "
                "of what came and your own chunk, not your own chunk alone.",
                wrong_ranks(lambda look, r, found, _: same(found, _own_row(look, r) + _own_row(look, r, -1)))),
        Symptom("nothing added", "Row r is some single rank's: what arrives must be added to your own chunk, not "
                                 "replace it.",
                wrong_ranks(lambda look, r, found, _: any(same(found, x[look.case.group_rank(r)])
                                                          for x in xs_of(look.case, r)))),
    ),
    ),
)
