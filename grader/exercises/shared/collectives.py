"""Symptoms, demands and questions that several exercises of this unit share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.shared.cases import xs_of
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, tensor_bytes
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.symptoms import deadlocked, wrong_ranks

# ── questions ──


def is_root(look: Look, rank: int) -> bool:
    """Whether `rank` is the root of its group."""
    return look.case.group_rank(rank) == look.case.inputs[rank]["root"]


def root_x(look: Look, rank: int) -> torch.Tensor:
    """x of the root of `rank`'s group."""
    return xs_of(look.case, rank)[look.case.inputs[rank]["root"]]


def neighbour_x(look: Look, rank: int, shift: int) -> torch.Tensor:
    """x of the rank `shift` places further on in the group."""
    return xs_of(look.case, rank)[(look.case.group_rank(rank) + shift) % group_size(look, rank)]


def sends_to_root(look: Look) -> list[bool]:
    """For each message inside a group, whether it goes to the root."""
    inside = [c for c in look.evidence.trace.of(op="send") if {c.rank, c.peer} <= set(look.working)]
    return [is_root(look, c.peer) for c in inside]


def swapped(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """Two results in the other order."""
    return same(found[0], expected[1]) and same(found[1], expected[0])


def tree_rounds(look: Look, rank: int) -> int:
    """⌈log2 n⌉ for the group of `rank`."""
    return math.ceil(math.log2(group_size(look, rank)))


# ── demands ──


def tree_bytes() -> Demand:
    """x itself travels, once a message."""
    return bytes_sent(lambda look, r: tree_rounds(look, r) * tensor_bytes(look, r), "at most ⌈log2 n⌉·M bytes a rank",
                      "More bytes travel than one x a message: send x itself and nothing else.")


# ── symptoms ──


def mean_for_sum() -> Symptom:
    """The sum divided by n."""
    return Symptom("mean for sum", "Every value is exactly n times too small: the sum over ranks is asked, and you "
                                   "divided by their number.",
                   wrong_ranks(lambda look, r, found, expected: same(found, expected / group_size(look, r))))


def message_to_itself(hint: str) -> Symptom:
    """A send or receive whose peer is the rank itself (in a case with groups it is a sign of mixed-up ranks)."""
    return Symptom("message to itself", hint,
                   lambda look: look.case.groups is None and "itself: skip the exchange" in look.evidence.error)


def not_sent_to_all() -> Symptom:
    """Ranks that wait for the root for ever."""
    return deadlocked("receive without send",
                      "Some ranks wait for a message that nobody sends them: the root must send to every other rank "
                      "of the group, however many there are.", id="not sent to all")


def one_step_too_many(phases: int = 1) -> Symptom:
    """Every rank sent one message more a phase than the n−1 that it takes; a lone rank sent one to itself."""

    def sent_too_many(look: Look, rank: int) -> bool:
        n, sent = group_size(look, rank), len(look.evidence.trace.of(rank, "send"))
        return phases * (n - 1) < sent <= phases * n

    def matches(look: Look) -> bool:
        if look.case.world_size == 1:
            return "itself: skip the exchange" in look.evidence.error
        return look.evidence.ending == RETURNED and all(sent_too_many(look, rank) for rank in look.working)

    return Symptom("one step too many", "The ring takes n−1 steps to go round, not n: after them everything has "
                                        "arrived, and a rank on its own has no step to make.", matches)


def ring_is_open() -> Symptom:
    """A peer beyond the last rank, or before the first."""
    return Symptom("open ring", "The ring is not closed: after the last rank comes rank 0, so the next is (r + 1) % "
                                "n and the one before (r − 1) % n.",
                   lambda look: look.case.groups is None and "there is no rank" in look.evidence.error)


def ring_stands() -> Symptom:
    """All ranks wait in the same kind of call, in a circle."""
    return Symptom("everyone waits", "All ranks make the same blocking call first and wait for each other in a "
                                     "circle: start the send with isend, receive, and only then wait for the send.",
                   lambda look: look.evidence.ending == DEADLOCKED
                   and look.evidence.error_kind in ("cycle of receives", "cycle of sends"))


def root_is_zero(part: Callable[[Look, int, torch.Tensor], Any] = lambda look, rank, x: x) -> Symptom:
    """What all hold, the root too, is from group rank 0, which is not the root. part: what of x a rank is to hold."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return look.case.inputs[rank]["root"] != 0 and same(found, part(look, rank, xs_of(look.case, rank)[0]))

    def matches(look: Look) -> bool:
        root_wrong = any(is_root(look, rank) and not same(*pair) for rank, *pair in look.pairs())
        return root_wrong and wrong_ranks(test)(look)

    return Symptom("root is always 0", "Everyone holds what rank 0 had: the parameter root says whose x it is, and it "
                                       "need not be 0.", matches)


def result_at_zero() -> Symptom:
    """Group rank 0 holds the root's result."""

    def matches(look: Look) -> bool:
        firsts = {look.case.members(r)[0] for r in look.working if look.case.inputs[r]["root"] != 0}
        return look.evidence.ending == RETURNED and bool(firsts) and all(
            same(look.outputs[r], look.right[look.case.members(r)[look.case.inputs[r]["root"]]]) for r in firsts)

    return Symptom("root is always 0", "The result is on rank 0: the parameter root says who gets it, and it need "
                                       "not be 0.",
                   matches)


def result_everywhere() -> Symptom:
    """The root is right and the others returned something where None is asked."""
    return Symptom("result not only on root",
                   "The root's result is right, but the other ranks return something too: they return None, since "
                   "only the root has the result.",
                   wrong_ranks(lambda look, r, found, expected: expected is None and isinstance(found, torch.Tensor)))
