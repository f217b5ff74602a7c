"""How a collective is written from sends and receives, and how it can fail, for the exercises of unit 01."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from grader.calling.watching_inputs import INPUTS_LOOKED_AT
from grader.calling.with_group import AGAIN, CALLS
from grader.evidence.evidence import DEADLOCKED, RAISED, RETURNED
from grader.judging.demands import (
    bytes_sent,
    only_neighbours_in_ring,
    only_point_to_point,
    results_waited,
    ring_neighbours,
    sends_waited,
    tensor_bytes,
    unchanged_under_way,
)
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import forgotten_send, group_ignored, unwaited
from utils.costs.formulas import bytes_sent_per_rank

# ── whole techniques ──


def from_messages(*demands: Demand, symptoms: Sequence[Symptom] = (), fallbacks: Sequence[Symptom] = ()) -> Technique:
    """Of a collective that is written from sends and receives."""
    return Technique(
        demands=(only_point_to_point(), *demands, results_waited(), sends_waited(), unchanged_under_way()),
        symptoms=(group_ignored(), *symptoms, forgotten_send(), unwaited()),
        fallbacks=(*fallbacks, _OTHER_TYPE_SENT, _WAITED_LATE),
    )


def around_a_ring(*demands: Demand, phases: int = 1, symptoms: Sequence[Symptom] = (),
                  fallbacks: Sequence[Symptom] = ()) -> Technique:
    """Of one that goes round a ring, n−1 steps a phase."""
    return from_messages(
        *demands, only_neighbours_in_ring(), ring_neighbours(), fallbacks=(_OTHER_WAY_ROUND, *fallbacks),
        symptoms=(_one_step_too_many(phases), _too_few_steps(phases), _RING_IS_OPEN, EVERYONE_WAITS, *symptoms))


# ── questions ──


def is_root(look: Look, rank: int) -> bool:
    """Whether `rank` is the root of its group."""
    return look.case.group_rank(rank) == look.case.inputs[rank]["root"]


def sends_to_root(look: Look) -> list[bool]:
    """For each message inside a group, whether it goes to the root."""
    inside = [c for c in look.evidence.trace.of(op="send") if {c.rank, c.peer} <= set(look.working)]
    return [is_root(look, c.peer) for c in inside]


def calls_made(look: Look, rank: int) -> int:
    """How often `rank` calls the function in this case."""
    return CALLS if AGAIN in look.case.inputs[rank] else 1


def formula_bytes(op: str) -> Callable[[Look, int], float]:
    """What each rank sends by the formula of a collective, such as "all_to_all", of its x, in all calls."""
    return lambda look, rank: calls_made(look, rank) * bytes_sent_per_rank(
        op, tensor_bytes(look, rank), look.case.group_size(rank))


def in_other_order(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    """The same rows, or the same numbers, in some other order."""
    return found.shape == expected.shape and sorted(found.tolist()) == sorted(expected.tolist())


def wrong_rows(found: torch.Tensor, expected: torch.Tensor) -> list[int]:
    """The numbers of the rows that are wrong; none where not even the shape is right."""
    return (found != expected).any(1).nonzero().flatten().tolist() if found.shape == expected.shape else []


def needed(op: str) -> Demand:
    """What an operation, such as "all_to_all", of each rank's x needs."""
    return needs(lambda look, rank: [(op, calls_made(look, rank) * tensor_bytes(look, rank))])


# The root's x comes to all others.
FROM_ROOT = needs(lambda look, rank: [("send" if is_root(look, rank) else "recv", tensor_bytes(look, rank))])


# ── trees ──


def tree_rounds(look: Look, rank: int) -> int:
    """⌈log2 n⌉ for the group of `rank`."""
    return math.ceil(math.log2(look.case.group_size(rank)))


TREE_BYTES = bytes_sent(lambda look, r: tree_rounds(look, r) * tensor_bytes(look, r), "at most ⌈log2 n⌉·M bytes a rank")


def places_mixed_up(upwards: bool = False) -> Symptom:
    """Of a tree: where n is a power of two, so that nobody lacks a partner, a message along another pair than a tree's.

    upwards: messages go to the root.
    """

    def astray(look: Look, source: int, target: int) -> bool:
        root, n = look.case.inputs[source]["root"], look.case.group_size(source)
        places = [(look.case.group_rank(rank) - root) % n for rank in (source, target)]
        near, far = reversed(places) if upwards else places
        return far <= near or (far - near).bit_count() != 1

    def matches(look: Look) -> bool:
        n = look.case.group_size(0)
        if look.case.groups is not None or n.bit_count() != 1 or not look.case.inputs[0]["root"]:
            return False
        lost = any(text in look.evidence.said for text in (*_TO_ITSELF, "there is no rank"))
        return lost or any(astray(look, c.rank, c.peer) for c in look.evidence.trace.of(op="send"))

    return Symptom("places mixed up", matches)


# ── symptoms ──

_TO_ITSELF = ("itself: skip the exchange", "not be the same as the rank of the current process")  # ours; torch's, of send


def message_to_itself() -> Symptom:
    """A send or receive whose peer is the rank itself (in a case with groups it is a sign of mixed-up ranks)."""
    return Symptom("message to itself",
                   lambda look: look.case.groups is None and any(text in look.evidence.said for text in _TO_ITSELF))


_OTHER_TYPE_SENT = Symptom(
    "another type sent",
    lambda look: look.evidence.ending == RETURNED and any(
        c.dtype != str(value.dtype).removeprefix("torch.") for c in look.evidence.trace.of(op="send")
        for name, value in look.case.inputs[c.rank].items() if name == "x"),
)


def _sends_again_before_the_wait(look: Look, rank: int) -> bool:
    sends = look.evidence.trace.of(rank, "send")
    return any(a.wait_start_s is None or a.wait_start_s > b.start_s for a, b in pairwise(sends) if a.is_async)


_WAITED_LATE = Symptom("waited late", lambda look: look.evidence.ending == RETURNED and any(
        _sends_again_before_the_wait(look, rank) for rank in look.working), weak=True)

_OTHER_WAY_ROUND = Symptom("wrong way round",
                           lambda look: look.evidence.ending == RETURNED and not ring_neighbours().judge(look)[0])


def out_of_step() -> Symptom:
    """As many messages as it takes, each waited for in time, and yet a wrong result: what else than the indices?"""
    return Symptom("out of step", lambda look: look.evidence.ending == RETURNED and look.case.world_size > 1 and all(
        len(look.evidence.trace.of(rank, "send")) >= look.case.group_size(rank) - 1
        and not _sends_again_before_the_wait(look, rank) for rank in look.working), weak=True)


def powers_of_two_only() -> Symptom:
    """It stops, but never where n is a power of two."""
    return Symptom("powers of two only", lambda look: look.evidence.ending in (DEADLOCKED, RAISED),
                   refuted=everyone_has_a_partner)


def everyone_has_a_partner(look: Look) -> bool:
    """Each group's size is a power of two."""
    return all(look.case.group_size(rank).bit_count() == 1 for rank in look.working)


# Where what arrives is written over what is still to be sent.
INPUT_OVERWRITTEN = Symptom("input overwritten", lambda look: look.evidence.ending == RETURNED and any(
        span.name == INPUTS_LOOKED_AT and span.facts["changed"] for span in look.evidence.trace.spans))

EVERYONE_WAITS = Symptom("everyone waits", lambda look: look.evidence.ending == DEADLOCKED
                         and look.evidence.error_kind in ("cycle of receives", "cycle of sends"))

_RING_IS_OPEN = Symptom("open ring", lambda look: look.case.groups is None and "there is no rank" in look.evidence.said)


def _too_few_steps(phases: int) -> Symptom:
    """Every rank sent less than it takes (half of it, where one of two phases is left out, is another mistake)."""

    def sent_too_few(look: Look, rank: int) -> bool:
        n, sent = look.case.group_size(rank), len(look.evidence.trace.of(rank, "send")) / calls_made(look, rank)
        return n > 1 and (sent or n == 2) and sent < phases * (n - 1) and sent != n - 1

    return Symptom("too few steps",
                   lambda look: look.evidence.ending == RETURNED and all(sent_too_few(look, r) for r in look.working))


def _one_step_too_many(phases: int) -> Symptom:
    """Every rank sent one message more a phase than the n−1 that it takes; a lone rank sent one to itself."""

    def sent_too_many(look: Look, rank: int) -> bool:
        n, sent = look.case.group_size(rank), len(look.evidence.trace.of(rank, "send")) / calls_made(look, rank)
        return phases * (n - 1) < sent <= phases * n

    def matches(look: Look) -> bool:
        if look.case.world_size == 1:
            return "itself: skip the exchange" in look.evidence.said
        return look.evidence.ending == RETURNED and all(sent_too_many(look, rank) for rank in look.working)

    return Symptom("one step too many", matches)
