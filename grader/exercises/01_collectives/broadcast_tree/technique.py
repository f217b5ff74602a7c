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
from grader.judging.symptoms import no_such_rank


def _root_is_sent_to(look: Look) -> bool:
    """The last round runs past the end of the group and round to its start."""
    return look.evidence.ending in (DEADLOCKED, RAISED) and any(sends_to_root(look))


TECHNIQUE = from_messages(
    FROM_ROOT,
    messages_at_most(tree_rounds, "nobody sends more than ⌈log2 n⌉ messages", id="one sends all"),
    rounds_at_most(tree_rounds, "done in ⌈log2 n⌉ rounds"),
    TREE_BYTES,
    symptoms=(
        places_mixed_up(),
        replace(message_to_itself(), id="past the last rank", refuted=everyone_has_a_partner),
        Symptom("past the last rank", _root_is_sent_to),
        replace(no_such_rank(), id="past the last rank", weak=True),
    ),
)
