"""Broadcast along a binomial tree: ⌈log2 n⌉ rounds, since everyone who has x passes it on."""

from __future__ import annotations

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.shared.cases import each_rank, rooted_cases, xs_of
from grader.exercises.shared.collectives import (
    is_root,
    message_to_itself,
    root_is_zero,
    sends_to_root,
    tree_bytes,
    tree_rounds,
)
from grader.judging.compare import same
from grader.judging.demands import messages_at_most, only_point_to_point, results_waited, rounds_at_most, sends_waited
from grader.judging.exercise import Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unchanged, unwaited

_OWN_X = unchanged("Ranks still hold their own x: receive into x itself, or return the tensor that you received into.",
                   id="own x returned")


def _some_never_got_it(look: Look) -> bool:
    received = [rank for rank, found, expected in look.pairs() if same(found, expected) and not is_root(look, rank)]
    return bool(received) and _OWN_X.matches(look)


def _root_is_sent_to(look: Look) -> bool:
    """The last round runs past the end of the group and round to its start."""
    return look.evidence.ending in (DEADLOCKED, RAISED) and any(sends_to_root(look))


EXERCISE = Exercise(
    title="Broadcast along a tree",
    parameters=("x", "root", "group"),
    make_cases=lambda draw, grading: rooted_cases(draw, grading, lambda n, k: (k,), big=1 << 16),
    oracle=each_rank(lambda case, r: xs_of(case, r)[case.inputs[r]["root"]]),
    technique=Technique(
        demands=(
        only_point_to_point(),
        messages_at_most(tree_rounds, "nobody sends more than ⌈log2 n⌉ messages",
                         "Every rank has x, but one rank did the sending for all: in a tree, a rank that has "
                         "received x sends it on while the root goes on sending.", id="one sends all"),
        rounds_at_most(tree_rounds, "done in ⌈log2 n⌉ rounds",
                       "Every rank has x, but it took too many rounds: in each round everyone who has x must send it "
                       "on, so that the number of ranks that have it doubles (1, 2, 4, …)."),
        tree_bytes(),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        message_to_itself("A rank sends to itself: where n is not a power of two, the last round has more senders than "
                          "ranks left, so check that the rank you send to exists."),
        group_ignored(),
        Symptom("past the last rank", "A message went to the root, which has x already: where n is not a power of "
                                      "two, the last round has more senders than ranks left, so check that the rank "
                                      "you send to exists.", _root_is_sent_to),
        root_is_zero(),
        unwaited(),
        Symptom("a round is missing", "Some ranks never got x: the tree needs log2 n rounds, rounded up (3 ranks "
                                      "need 2, 5 ranks need 3).", _some_never_got_it),
        _OWN_X,
    ),
    ),
)
