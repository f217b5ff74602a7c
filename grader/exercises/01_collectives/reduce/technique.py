"""How reduce must be done, and how it can fail."""

import math

from grader.evidence.evidence import RETURNED
from grader.exercises.technique import collectives
from grader.judging.demands import inputs_kept, messages_at_most, rounds_at_most, tensor_bytes
from grader.judging.exercise import Look, Symptom
from grader.judging.needs import needs


def _sends_before_it_receives(look: Look) -> bool:
    """A rank receives after it has sent, or has sent and never receives what is sent to it."""
    sends, receives = look.evidence.trace.of(op="send"), look.evidence.trace.of(op="recv")
    sent_s = {c.rank: c.start_s for c in sends}
    awaited = {(c.peer, c.rank) for c in receives}
    return any(c.start_s > sent_s.get(c.rank, math.inf) for c in receives) or any(
        c.peer in sent_s and (c.rank, c.peer) not in awaited for c in sends)


def _tree_but_wrong(look: Look) -> bool:
    sent = {rank: len(look.evidence.trace.of(rank, "send")) for rank in look.working}
    return look.evidence.ending == RETURNED and all(
        count == (not collectives.is_root(look, rank)) for rank, count in sent.items())


TECHNIQUE = collectives.from_messages(
    needs(lambda look, r: [("recv" if collectives.is_root(look, r) else "send", tensor_bytes(look, r))]),
    messages_at_most(lambda look, r: 0 if collectives.is_root(look, r) else 1, "each rank but the root sends once"),
    rounds_at_most(collectives.tree_rounds, "done in ⌈log2 n⌉ rounds"),
    collectives.TREE_BYTES,
    inputs_kept(),
    symptoms=(
        collectives.places_mixed_up(upwards=True),
        Symptom("sent too early", _sends_before_it_receives),
    ),
    fallbacks=(
        collectives.powers_of_two_only(),
        Symptom("parts lost or doubled", _tree_but_wrong, weak=True),
    ),
)
