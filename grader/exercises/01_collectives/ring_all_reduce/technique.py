"""How ring_all_reduce must be done, and how it can fail."""

import math

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.technique.collectives import around_a_ring, needed, out_of_step
from grader.judging.demands import bytes_sent
from grader.judging.exercise import Look, Symptom


def _chunk_bytes(look: Look, rank: int) -> int:
    x = look.case.inputs[rank]["x"]
    return math.ceil(len(x) / look.case.group_size(rank)) * x.itemsize


def _uneven(look: Look) -> bool:
    return any(len(look.case.inputs[r]["x"]) % look.case.group_size(r) for r in look.working)


def _uneven_stops(look: Look) -> bool:
    return _uneven(look) and look.evidence.ending in (RAISED, DEADLOCKED)


TECHNIQUE = around_a_ring(
    needed("all_reduce"),
    bytes_sent(lambda look, r: 2 * (look.case.group_size(r) - 1) * _chunk_bytes(look, r),
               "at most 2(n−1)·⌈length/n⌉ elements", id="whole tensors"),
    phases=2,
    symptoms=(
        Symptom("uneven length", _uneven_stops, refuted=lambda look: not _uneven(look)),
    ),
    fallbacks=(
        out_of_step(),
    ),
)
