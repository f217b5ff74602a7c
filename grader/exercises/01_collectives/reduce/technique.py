"""How reduce must be done, and how it can fail."""

from grader.exercises.technique import collectives
from grader.judging.compare import same
from grader.judging.demands import inputs_kept, messages_at_most, rounds_at_most
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks

TECHNIQUE = collectives.from_messages(
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
        collectives.message_to_itself(
            "A rank sends to itself: where n is not a power of two, some ranks of the tree have no partner in a round, so "
            "check that it exists."),
    ),
    fallbacks=(
        collectives.RESULT_EVERYWHERE,
        Symptom("one x missing", "The sum lacks the x of one rank: every rank's own x belongs to it, the root's too.",
                wrong_ranks(lambda look, r, found, expected: any(
                    same(found, expected - x) for x in look.case.peers_inputs(r, "x")))),
    ),
)
