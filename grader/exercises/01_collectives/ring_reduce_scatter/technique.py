"""How ring_reduce_scatter must be done, and how it can fail."""

from grader.exercises.technique.collectives import around_a_ring
from grader.judging.demands import bytes_sent, inputs_kept, not_far_more_bytes, tensor_bytes
from grader.judging.exercise import Look
from utils.costs.formulas import bytes_sent_per_rank

_WHOLE = "The sum is right, but whole tensors travel: a ring passes one row of C elements a step, n−1 steps in all."


def _needed_bytes(look: Look, rank: int) -> float:
    return bytes_sent_per_rank("reduce_scatter", tensor_bytes(look, rank), look.case.group_size(rank))


TECHNIQUE = around_a_ring(
    bytes_sent(_needed_bytes, "at most (n−1)/n·M bytes", _WHOLE, id="whole tensors"),
    not_far_more_bytes(_needed_bytes, _WHOLE),
    inputs_kept("The sum is right, but x_NC was overwritten: add into a clone of it, or into what you received."),
)
