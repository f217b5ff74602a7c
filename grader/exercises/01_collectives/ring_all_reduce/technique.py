"""How ring_all_reduce must be done, and how it can fail."""

import math

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.technique.collectives import around_a_ring, needed, out_of_step
from grader.judging.compare import same
from grader.judging.demands import bytes_sent
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks


def _chunk_bytes(look: Look, rank: int) -> int:
    x = look.case.inputs[rank]["x"]
    return math.ceil(len(x) / look.case.group_size(rank)) * x.itemsize


def _only_a_chunk_is_right(look: Look, rank: int, found, expected) -> bool:
    """A piece of the length of a chunk holds the sum, the rest does not."""
    size = len(expected) // look.case.group_size(rank)
    chunks = zip(found.split(size), expected.split(size), strict=True)
    return size > 0 and sum(same(f, e) for f, e in chunks) == 1 and look.case.group_size(rank) > 1


def _uneven_stops(look: Look) -> bool:
    uneven = any(len(look.case.inputs[r]["x"]) % look.case.group_size(r) for r in look.working)
    return uneven and look.evidence.ending in (RAISED, DEADLOCKED)


TECHNIQUE = around_a_ring(
    needed("all_reduce"),
    bytes_sent(lambda look, r: 2 * (look.case.group_size(r) - 1) * _chunk_bytes(look, r),
               "at most 2(n−1)·⌈length/n⌉ elements",
               "The sum is right, but whole tensors travel, or chunks that are too large: a ring passes one chunk a step, "
               "n−1 steps to reduce-scatter and n−1 to all-gather, and a chunk has ⌈length/n⌉ elements: pad x to the next "
               "multiple of n, no further.",
               id="whole tensors"),
    phases=2,
    symptoms=(
        Symptom("uneven length", "It stops where n does not divide the length of x, or exceeds it: chunks must be "
                                 "equally long everywhere, so pad x with zeros to a multiple of n.", _uneven_stops),
    ),
    fallbacks=(
        Symptom("no all-gather", "One chunk of each rank holds the sum, the rest does not: after the reduce-scatter, "
                                 "n−1 more steps must carry the finished chunks round.",
                wrong_ranks(_only_a_chunk_is_right)),
        out_of_step("The messages are as they should be, the sums are not: see that rank r holds the whole sum of chunk r "
                    "before the second half begins, and that this half only copies."),
    ),
)
