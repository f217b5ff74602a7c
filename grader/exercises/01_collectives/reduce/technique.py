"""How reduce must be done, and how it can fail."""

import torch

from grader.exercises.technique.collectives import (
    from_messages,
    is_root,
    message_to_itself,
    result_everywhere,
    tree_bytes,
    tree_rounds,
)
from grader.judging.compare import same
from grader.judging.demands import inputs_kept, messages_at_most, rounds_at_most
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks


def _one_x_missing(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    return any(same(found, expected - x) for x in look.case.peers_inputs(rank, "x"))


TECHNIQUE = from_messages(
    messages_at_most(lambda look, r: 0 if is_root(look, r) else 1, "each rank but the root sends once",
                     "The sum is right, but with too many messages: each rank but the root sends once, after it has "
                     "added what it received, and the root sends nothing."),
    rounds_at_most(tree_rounds, "done in ⌈log2 n⌉ rounds",
                   "The sum is right, but one rank received nearly everything itself: run the broadcast tree "
                   "backwards, so that half of the ranks left send in each round and the sums are made along the way."),
    tree_bytes(),
    inputs_kept("The sum is right, but some rank's x was overwritten on the way: total = x is another name for the same "
                "memory, so start from x.clone()."),
    symptoms=(
        message_to_itself("A rank sends to itself: where n is not a power of two, some ranks of the tree have no "
                          "partner in a round, so check that it exists."),
    ),
    fallbacks=(
        result_everywhere(),
        Symptom("one x missing", "The sum lacks the x of one rank: every rank's own x belongs to it, the root's too.",
                wrong_ranks(_one_x_missing)),
    ),
)
