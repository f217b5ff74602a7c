"""Broadcast, the naive way: the root sends x to each other rank, (n−1)·M bytes from one place."""

from __future__ import annotations

from grader.exercises.shared.cases import each_rank, rooted_cases, xs_of
from grader.exercises.shared.collectives import is_root, message_to_itself, not_sent_to_all, root_is_zero
from grader.judging.demands import bytes_sent, group_size, only_point_to_point, results_waited, sends_waited, tensor_bytes
from grader.judging.exercise import Exercise, Technique
from grader.judging.symptoms import group_ignored, unchanged, unwaited

EXERCISE = Exercise(
    title="Broadcast, the naive way",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,)),
    oracle=each_rank(lambda case, r: xs_of(case, r)[case.inputs[r]["root"]]),
    points={"values": 1, "technique": 1},
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: (group_size(look, r) - 1) * tensor_bytes(look, r) * is_root(look, r),
                   "the root sends (n−1)·M bytes, the others nothing",
                   "Every rank has x, but not from the root alone: here the root sends x to each other rank once, and "
                   "nobody else sends (the tree, which shares the work, comes next).", id="others send too"),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        message_to_itself("The root sends to itself, and such a message never arrives: leave the root out of the "
                          "loop; it has x already."),
        group_ignored(),
        root_is_zero(),
        not_sent_to_all(),
        unwaited(),
        unchanged("Ranks still hold their own x: receive into x itself, or return the tensor that you received into.",
                  id="own x returned"),
    ),
    ),
)
