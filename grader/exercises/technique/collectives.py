"""How a collective is written from sends and receives, and how it can fail, for the exercises of unit 01."""

import math
from collections.abc import Callable, Sequence

import torch

from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.judging.demands import (
    bytes_sent,
    only_point_to_point,
    results_waited,
    ring_neighbours,
    sends_waited,
    shared_work,
    tensor_bytes,
)
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

# ── whole techniques ──


def from_messages(*demands: Demand, symptoms: Sequence[Symptom] = (), fallbacks: Sequence[Symptom] = ()) -> Technique:
    """Of a collective that is written from sends and receives."""
    return Technique(
        demands=(only_point_to_point(), *demands, results_waited(), sends_waited()),
        symptoms=(group_ignored(), *symptoms, unwaited()),
        fallbacks=tuple(fallbacks),
    )


def around_a_ring(*demands: Demand, phases: int = 1, symptoms: Sequence[Symptom] = (),
                  fallbacks: Sequence[Symptom] = ()) -> Technique:
    """Of one that goes round a ring, n−1 steps a phase."""
    return from_messages(
        *demands, ring_neighbours(), shared_work(), fallbacks=fallbacks,
        symptoms=(_one_step_too_many(phases), _RING_IS_OPEN, EVERYONE_WAITS, *symptoms))


# ── questions ──


def is_root(look: Look, rank: int) -> bool:
    """Whether `rank` is the root of its group."""
    return look.case.group_rank(rank) == look.case.inputs[rank]["root"]


def sends_to_root(look: Look) -> list[bool]:
    """For each message inside a group, whether it goes to the root."""
    inside = [c for c in look.evidence.trace.of(op="send") if {c.rank, c.peer} <= set(look.working)]
    return [is_root(look, c.peer) for c in inside]


def formula_bytes(op: str) -> Callable[[Look, int], float]:
    """What each rank sends by the formula of a collective, such as "all_to_all", of its x."""
    return lambda look, rank: bytes_sent_per_rank(op, tensor_bytes(look, rank), look.case.group_size(rank))


def in_other_order(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    """The same rows, or the same numbers, in some other order."""
    return found.shape == expected.shape and sorted(found.tolist()) == sorted(expected.tolist())


def wrong_rows(found: torch.Tensor, expected: torch.Tensor) -> list[int]:
    """The numbers of the rows that are wrong; none where not even the shape is right."""
    return (found != expected).any(1).nonzero().flatten().tolist() if found.shape == expected.shape else []


# ── trees ──


def tree_rounds(look: Look, rank: int) -> int:
    """⌈log2 n⌉ for the group of `rank`."""
    return math.ceil(math.log2(look.case.group_size(rank)))


TREE_BYTES = bytes_sent(
    lambda look, r: tree_rounds(look, r) * tensor_bytes(look, r), "at most ⌈log2 n⌉·M bytes a rank",
    "More bytes travel than one x a message: send x itself and nothing else.")


# ── symptoms ──


def message_to_itself(hint: str) -> Symptom:
    """A send or receive whose peer is the rank itself (in a case with groups it is a sign of mixed-up ranks)."""
    said = ("itself: skip the exchange", "not be the same as the rank of the current process")  # ours; torch's, of send
    return Symptom("message to itself", hint,
                   lambda look: look.case.groups is None and any(text in look.evidence.error for text in said))


NOT_SENT_TO_ALL = deadlocked(
    "receive without send", "Some ranks wait for a message that nobody sends them: the root must send to every other rank "
    "of the group, however many there are.", id="not sent to all")

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


def _one_step_too_many(phases: int) -> Symptom:
    """Every rank sent one message more a phase than the n−1 that it takes; a lone rank sent one to itself."""

    def sent_too_many(look: Look, rank: int) -> bool:
        n, sent = look.case.group_size(rank), len(look.evidence.trace.of(rank, "send"))
        return phases * (n - 1) < sent <= phases * n

    def matches(look: Look) -> bool:
        if look.case.world_size == 1:
            return "itself: skip the exchange" in look.evidence.error
        return look.evidence.ending == RETURNED and all(sent_too_many(look, rank) for rank in look.working)

    return Symptom("one step too many", "The ring takes n−1 steps to go round, not n: after them everything has "
                                        "arrived, and a rank on its own has no step to make.", matches)
