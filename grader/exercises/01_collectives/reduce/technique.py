"""How reduce must be done, and how it can fail."""

import math
from dataclasses import replace

from grader.evidence.evidence import RETURNED
from grader.exercises.technique import collectives
from grader.judging.compare import same
from grader.judging.demands import inputs_kept, messages_at_most, rounds_at_most, tensor_bytes
from grader.judging.exercise import Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import wrong_ranks


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
    messages_at_most(lambda look, r: 0 if collectives.is_root(look, r) else 1, "each rank but the root sends once",
                     "The sum is right, but with too many messages: each rank but the root sends once, after it has "
                     "added what it received, and the root sends nothing."),
    rounds_at_most(collectives.tree_rounds, "done in ⌈log2 n⌉ rounds",
                   "The sum is right, but one rank received nearly everything itself: run the broadcast tree "
                   "backwards, so that half of the ranks left send in each round and the sums are made along the way."),
    collectives.TREE_BYTES,
    inputs_kept("The sum is right, but some rank's x was overwritten on the way: total = x is another name for the same "
                "memory, so start from x.clone()."),
    symptoms=(
        collectives.places_mixed_up(upwards=True),
        Symptom("sent too early", "A rank sends its sum on and receives another one later, which is lost: run the rounds "
                "from the last to 0, so that each rank sends after all that it receives.", _sends_before_it_receives),
        replace(collectives.message_to_itself(
            "A rank sends to itself: where n is not a power of two, some ranks of the tree have no partner in a round, so "
            "check that it exists."), refuted=collectives.everyone_has_a_partner),
    ),
    fallbacks=(
        collectives.powers_of_two_only("It stops where n is not a power of two: in the first round some places have no "
                                       "partner, so check that place + 2ᵏ is below n."),
        collectives.RESULT_EVERYWHERE,
        Symptom("one x missing", "The sum lacks the x of one rank: every rank's own x belongs to it, the root's too.",
                wrong_ranks(lambda look, r, found, expected: any(
                    same(found, expected - x) for x in look.case.peers_inputs(r, "x")))),
        Symptom("parts lost or doubled", "Each rank sends once, as it should, but the sum is wrong: start from one clone of "
                "x, add each part that arrives once, and send what that gives.", _tree_but_wrong, weak=True),
    ),
)
