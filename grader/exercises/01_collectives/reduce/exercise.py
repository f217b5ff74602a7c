"""Reduce: the broadcast tree backwards, adding on the way; ⌈log2 n⌉ rounds."""

from __future__ import annotations

import torch

from grader.exercises.shared.cases import each_rank, rooted_cases, total, xs_of
from grader.exercises.shared.collectives import (
    is_root,
    mean_for_sum,
    message_to_itself,
    result_at_zero,
    result_everywhere,
    tree_bytes,
    tree_rounds,
)
from grader.judging.compare import same
from grader.judging.demands import (
    inputs_kept,
    messages_at_most,
    only_point_to_point,
    results_waited,
    rounds_at_most,
    sends_waited,
)
from grader.judging.exercise import Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unchanged, unwaited, wrong_ranks


def _sum_of_direct_senders(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    """The root added the own x of each rank that sent to it, not what they had collected."""
    heard = [c.peer for c in look.evidence.trace.of(rank, "recv") if c.peer is not None]
    return is_root(look, rank) and same(found, total([look.case.inputs[peer]["x"] for peer in [rank, *heard]]))


def _one_x_missing(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    return any(same(found, expected - x) for x in xs_of(look.case, rank))


EXERCISE = Exercise(
    title="Reduce along a tree",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16),
    oracle=each_rank(lambda case, r: total(xs_of(case, r)) if case.group_rank(r) == case.inputs[r]["root"] else None),
    technique=Technique(
        demands=(
        only_point_to_point(),
        messages_at_most(lambda look, r: 0 if is_root(look, r) else 1, "each rank but the root sends once",
                         "The sum is right, but with too many messages: each rank but the root sends once, after it "
                         "has added what it received, and the root sends nothing."),
        rounds_at_most(tree_rounds, "done in ⌈log2 n⌉ rounds",
                       "The sum is right, but one rank received nearly everything itself: run the broadcast tree "
                       "backwards, so that half of the ranks left send in each round and the sums are made along the "
                       "way."),
        tree_bytes(),
        results_waited(),
        sends_waited(),
        inputs_kept("The sum is right, but some rank's x was overwritten on the way: total = x is another name for "
                    "the same memory, so start from x.clone()."),
    ),
        symptoms=(
        message_to_itself("A rank sends to itself: where n is not a power of two, some ranks of the tree have no "
                          "partner in a round, so check that it exists."),
        group_ignored(),
        result_at_zero(),
        result_everywhere(),
        unwaited(),
        mean_for_sum(),
        Symptom("partial sums lost", "The root added only what its direct partners had at the start: a rank must "
                                     "send the sum of its x and all that it has received, not x alone.",
                wrong_ranks(_sum_of_direct_senders)),
        unchanged("The root still holds its own x: nothing that it received was added.", id="nothing added"),
        Symptom("one x missing", "The sum lacks the x of one rank: every rank's own x belongs to it, the root's too.",
                wrong_ranks(_one_x_missing)),
    ),
    ),
)
