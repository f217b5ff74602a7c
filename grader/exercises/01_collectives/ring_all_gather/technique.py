"""How ring_all_gather must be done, and how it can fail."""

from grader.exercises.technique.collectives import around_a_ring, wrong_rows
from grader.judging.demands import bytes_sent, tensor_bytes
from grader.judging.exercise import Symptom
from grader.judging.symptoms import wrong_ranks

TECHNIQUE = around_a_ring(
    bytes_sent(lambda look, r: (look.case.group_size(r) - 1) * tensor_bytes(look, r),
               "at most (n−1)·C elements = (n−1)/n·M",
               "All rows arrive, but whole tensors travel: in each step pass on one row, the one that came last.",
               id="whole tensors"),
    fallbacks=(
        Symptom("a row missing", "One row never arrived: n−1 steps are needed, one for each other rank.",
                wrong_ranks(lambda look, r, *pair: len(wrong_rows(*pair)) == 1)),
    ),
)
