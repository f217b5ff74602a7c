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
)
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

# ── whole techniques ──


def from_messages(*demands: Demand, symptoms: Sequence[Symptom] = (), fallbacks: Sequence[Symptom] = ()) -> Technique:
    """Of a collective that is written from sends and receives."""
    return Technique(
        demands=(only_point_to_point(), *demands, results_waited(), sends_waited()),
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


TREE_BYTES = bytes_sent(
    lambda look, r: tree_rounds(look, r) * tensor_bytes(look, r), "at most ⌈log2 n⌉·M bytes a rank",
    "More bytes travel than one x a message: send x itself and nothing else.")


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
        lost = any(text in look.evidence.error for text in (*_TO_ITSELF, "there is no rank"))
        return lost or any(astray(look, c.rank, c.peer) for c in look.evidence.trace.of(op="send"))

    return Symptom("places mixed up", "Messages go to other ranks than the tree's: places count from the root, place = (r − "
                   "root) % n, and the rank at place p is (p + root) % n. Every peer must be turned back into a rank.",
                   matches)


# ── symptoms ──

_TO_ITSELF = ("itself: skip the exchange", "not be the same as the rank of the current process")  # ours; torch's, of send


def message_to_itself(hint: str) -> Symptom:
    """A send or receive whose peer is the rank itself (in a case with groups it is a sign of mixed-up ranks)."""
    return Symptom("message to itself", hint,
                   lambda look: look.case.groups is None and any(text in look.evidence.error for text in _TO_ITSELF))


NOT_SENT_TO_ALL = deadlocked(
    "receive without send", "Some ranks wait for a message that nobody sends them: the root must send to every other rank "
    "of the group, however many there are.", id="not sent to all")

_OTHER_TYPE_SENT = Symptom(
    "another type sent", "Messages travel in another dtype than the data has: a shorter one loses digits, a longer one "
    "takes more bytes. Send x as it is, and what you pad or join it with in its dtype (x.new_zeros).",
    lambda look: look.evidence.ending == RETURNED and any(
        c.dtype != str(value.dtype).removeprefix("torch.") for c in look.evidence.trace.of(op="send")
        for name, value in look.case.inputs[c.rank].items() if name == "x"))


def _sends_again_before_the_wait(look: Look, rank: int) -> bool:
    sends = look.evidence.trace.of(rank, "send")
    return any(a.wait_start_s is None or a.wait_start_s > b.start_s for a, b in pairwise(sends) if a.is_async)


_WAITED_LATE = Symptom(
    "waited late", "The result is wrong, and sends are waited for only after others were started: until its wait, what an "
    "isend is sending must not change. Wait for each before you write into its tensor.",
    lambda look: look.evidence.ending == RETURNED and any(
        _sends_again_before_the_wait(look, rank) for rank in look.working), weak=True)

_OTHER_WAY_ROUND = Symptom(
    "wrong way round", "Messages go to the rank before: in this ring r sends to (r + 1) % n and receives from (r − 1) % n; "
    "the chunks' numbers belong to that direction.",
    lambda look: look.evidence.ending == RETURNED and not ring_neighbours().judge(look)[0])


def out_of_step(hint: str) -> Symptom:
    """As many messages as it takes, each waited for in time, and yet a wrong result: what else than the indices?"""
    return Symptom("out of step", hint, lambda look: look.evidence.ending == RETURNED and look.case.world_size > 1 and all(
        len(look.evidence.trace.of(rank, "send")) >= look.case.group_size(rank) - 1
        and not _sends_again_before_the_wait(look, rank) for rank in look.working), weak=True)


def powers_of_two_only(hint: str) -> Symptom:
    """It stops, but never where n is a power of two."""
    return Symptom("powers of two only", hint, lambda look: look.evidence.ending in (DEADLOCKED, RAISED),
                   refuted=everyone_has_a_partner)


def everyone_has_a_partner(look: Look) -> bool:
    """Each group's size is a power of two."""
    return all(look.case.group_size(rank).bit_count() == 1 for rank in look.working)


# Where what arrives is written over what is still to be sent.
INPUT_OVERWRITTEN = Symptom(
    "input overwritten", "The input is overwritten before all of it has been sent: receive into a new tensor "
    "(torch.empty_like), and leave what an isend is sending as it is until its wait.",
    lambda look: look.evidence.ending == RETURNED and any(
        span.name == INPUTS_LOOKED_AT and span.facts["changed"] for span in look.evidence.trace.spans))

EVERYONE_WAITS = Symptom(
    "everyone waits", "All ranks make the same blocking call first and wait for each other in a circle: start the send with "
    "isend, receive, and only then wait for the send.",
    lambda look: look.evidence.ending == DEADLOCKED and look.evidence.error_kind in ("cycle of receives", "cycle of sends"))

_RING_IS_OPEN = Symptom(
    "open ring", "The ring is not closed: after the last rank comes rank 0, so the next is (r + 1) % n and the one before "
    "(r − 1) % n.", lambda look: look.case.groups is None and "there is no rank" in look.evidence.error)

# Where the root is right.
RESULT_EVERYWHERE = Symptom(
    "result not only on root", "The root's result is right, but the other ranks return something too: they return None, "
    "since only the root has the result.",
    wrong_ranks(lambda look, r, found, expected: expected is None and isinstance(found, torch.Tensor)))


def _too_few_steps(phases: int) -> Symptom:
    """Every rank sent less than it takes (half of it, where one of two phases is left out, is another mistake)."""

    def sent_too_few(look: Look, rank: int) -> bool:
        n, sent = look.case.group_size(rank), len(look.evidence.trace.of(rank, "send")) / calls_made(look, rank)
        return n > 1 and (sent or n == 2) and sent < phases * (n - 1) and sent != n - 1

    return Symptom("too few steps", "Too few messages: a ring takes n−1 steps to go round, for reduce-scatter and for "
                   "all-gather. After fewer, some ranks' parts have not come by.",
                   lambda look: look.evidence.ending == RETURNED and all(sent_too_few(look, r) for r in look.working))


def _one_step_too_many(phases: int) -> Symptom:
    """Every rank sent one message more a phase than the n−1 that it takes; a lone rank sent one to itself."""

    def sent_too_many(look: Look, rank: int) -> bool:
        n, sent = look.case.group_size(rank), len(look.evidence.trace.of(rank, "send")) / calls_made(look, rank)
        return phases * (n - 1) < sent <= phases * n

    def matches(look: Look) -> bool:
        if look.case.world_size == 1:
            return "itself: skip the exchange" in look.evidence.error
        return look.evidence.ending == RETURNED and all(sent_too_many(look, rank) for rank in look.working)

    return Symptom("one step too many", "The ring takes n−1 steps to go round, not n: after them everything has "
                                        "arrived, and a rank on its own has no step to make.", matches)
