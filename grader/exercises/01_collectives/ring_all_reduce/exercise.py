"""Ring all-reduce: reduce-scatter, then all-gather; 2(n−1)·⌈M/n⌉ elements a rank, of any number M."""

from __future__ import annotations

import math
from collections.abc import Sequence

from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.shared.cases import each_rank, elements, one_tensor_cases, ranks, same_shape, total, xs_of
from grader.exercises.shared.collectives import mean_for_sum, one_step_too_many, ring_is_open, ring_stands
from grader.judging.compare import same
from grader.judging.demands import (
    bytes_sent,
    group_size,
    only_point_to_point,
    results_waited,
    ring_neighbours,
    sends_waited,
    shared_work,
)
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unchanged, unwaited, wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Even lengths, then some that n does not divide, one of them shorter than n."""
    uneven = [(2, 5), (3, 7), (4, 3)] + [(4, 4 * draw.integer(1, 5) + draw.integer(1, 3)), (5, 1)] * grading
    return [*one_tensor_cases(draw, grading, lambda n, k: (n * k,)),
            *(same_shape(f"{ranks(n)}, {elements(m)} in all", draw, n, (m,)) for n, m in uneven)]


def _chunk_bytes(look: Look, rank: int) -> int:
    x = look.case.inputs[rank]["x"]
    return math.ceil(len(x) / group_size(look, rank)) * x.itemsize


def _only_a_chunk_is_right(look: Look, rank: int, found, expected) -> bool:
    """A piece of the length of a chunk holds the sum, the rest does not."""
    size = len(expected) // group_size(look, rank)
    chunks = zip(found.split(size), expected.split(size), strict=True)
    return size > 0 and sum(same(f, e) for f, e in chunks) == 1 and group_size(look, rank) > 1


def _tail_left(look: Look, rank: int, found, expected) -> bool:
    body = len(expected) - len(expected) % group_size(look, rank)
    return len(found) <= len(expected) and 0 < body < len(expected) and same(
        found[:body], expected[:body])


def _uneven_stops(look: Look) -> bool:
    uneven = any(len(look.case.inputs[r]["x"]) % group_size(look, r) for r in look.working)
    return uneven and look.evidence.ending in (RAISED, DEADLOCKED)


EXERCISE = Exercise(
    title="Ring all-reduce",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: 2 * (group_size(look, r) - 1) * _chunk_bytes(look, r),
                   "at most 2(n−1)·⌈M/n⌉ elements",
                   "The sum is right, but whole tensors travel: a ring passes one chunk of ⌈M/n⌉ elements a step, "
                   "n−1 steps to reduce-scatter and n−1 to all-gather.", id="whole tensors"),
        ring_neighbours(),
        shared_work(),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        one_step_too_many(phases=2),
        ring_is_open(),
        ring_stands(),
        group_ignored(),
        unwaited(),
        mean_for_sum(),
        Symptom("tail left out", "Where n does not divide the length, the last elements are not summed: round the "
                                 "chunk size up and pad x with zeros.", wrong_ranks(_tail_left)),
        Symptom("no all-gather", "One chunk of each rank holds the sum, the rest does not: after the reduce-scatter, "
                                 "n−1 more steps must carry the finished chunks round.",
                wrong_ranks(_only_a_chunk_is_right)),
        unchanged("Each rank still holds its own input: nothing that was received was added."),
        Symptom("padding returned", "Where n does not divide the length, the result has the padding at its end: cut "
                                    "it back to the length of x.",
                wrong_ranks(lambda look, r, found, expected: same(found[:len(expected)], expected))),
        Symptom("uneven length", "It stops where n does not divide the length of x, or exceeds it: chunks must be "
                                 "equally long everywhere, so pad x with zeros to a multiple of n.", _uneven_stops),
    ),
    ),
)
