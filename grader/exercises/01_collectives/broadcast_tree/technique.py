"""How broadcast_tree must be done, and how it can fail."""

from dataclasses import replace

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.technique.collectives import (
    FROM_ROOT,
    TREE_BYTES,
    everyone_has_a_partner,
    from_messages,
    message_to_itself,
    places_mixed_up,
    sends_to_root,
    tree_rounds,
)
from grader.judging.demands import messages_at_most, rounds_at_most
from grader.judging.exercise import Look, Symptom

_PARTNER = ("where n is not a power of two, the last round has more senders than ranks left, so check that the rank you "
            "send to exists.")


def _root_is_sent_to(look: Look) -> bool:
    """The last round runs past the end of the group and round to its start."""
    return look.evidence.ending in (DEADLOCKED, RAISED) and any(sends_to_root(look))


TECHNIQUE = from_messages(
    FROM_ROOT,
    messages_at_most(tree_rounds, "nobody sends more than ⌈log2 n⌉ messages",
                     "Every rank has x, but one rank did the sending for all: in a tree, a rank that has received x "
                     "sends it on while the root goes on sending.", id="one sends all"),
    rounds_at_most(tree_rounds, "done in ⌈log2 n⌉ rounds",
                   "Every rank has x, but it took too many rounds: in each round everyone who has x must send it on, "
                   "so that the number of ranks that have it doubles (1, 2, 4, …)."),
    TREE_BYTES,
    symptoms=(
        places_mixed_up(),
        replace(message_to_itself(f"A rank sends to itself: {_PARTNER}"), refuted=everyone_has_a_partner),
        Symptom("past the last rank", f"A message went to the root, which has x already: {_PARTNER}", _root_is_sent_to),
    ),
)
