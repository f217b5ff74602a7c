"""How ring_all_gather must be done, and how it can fail."""

import torch

from grader.exercises.technique.collectives import around_a_ring, calls_made, out_of_step, wrong_rows
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, tensor_bytes
from grader.judging.exercise import Look, Symptom
from grader.judging.needs import needs
from grader.judging.symptoms import wrong_ranks


def _own_row_overwritten(look: Look, rank: int, found: torch.Tensor, expected: torch.Tensor) -> bool:
    xs, r = look.case.peers_inputs(rank, "x"), look.case.group_rank(rank)
    return any(same(found[r], x) for place, x in enumerate(xs) if place != r)


TECHNIQUE = around_a_ring(
    needs(lambda look, r: [("all_gather", calls_made(look, r) * look.right[r].nbytes)]),
    bytes_sent(lambda look, r: calls_made(look, r) * (look.case.group_size(r) - 1) * tensor_bytes(look, r),
               "at most (n−1)·C elements = (n−1)/n·M", id="whole tensors"),
    fallbacks=(
        Symptom("own row overwritten", wrong_ranks(_own_row_overwritten)),
        Symptom("a row missing", wrong_ranks(lambda look, r, *pair: len(wrong_rows(*pair)) == 1)),
        out_of_step(),
    ),
)
