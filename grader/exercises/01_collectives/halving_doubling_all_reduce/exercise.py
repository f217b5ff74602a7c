"""Challenge: all-reduce by recursive halving and doubling; as few bytes as a ring in 2·log2 n messages."""

from __future__ import annotations

import math
from collections.abc import Sequence

from grader.exercises.shared.cases import (
    big_case,
    each_rank,
    elements,
    ranks,
    same_shape,
    subgroup_case,
    total,
    xs_of,
)
from grader.exercises.shared.collectives import mean_for_sum, message_to_itself, neighbour_x, ring_stands
from grader.judging.compare import same
from grader.judging.demands import (
    bytes_sent,
    group_size,
    messages_at_most,
    only_point_to_point,
    results_waited,
    sends_waited,
    shared_work,
    tensor_bytes,
)
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, unchanged, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Numbers of ranks that are powers of two, lengths that they divide."""
    sizes = [(1, 3), (2, draw.integer(1, 4)), (4, draw.integer(1, 4)), (8, draw.integer(1, 3))]
    sizes += [(4, 1), (8, 5)] * grading
    cases = [same_shape(f"{ranks(n)}, {elements(n * k)}", draw, n, (n * k,)) for n, k in sizes]
    cases.append(subgroup_case(draw, lambda n: (2 * n,), ((0, 2, 5, 7), (1, 3, 4, 6))))
    return [*cases, big_case("4 ranks, 512 KiB", draw, 4, (1 << 17,))]


def _pieces(look: Look, rank: int, found, expected):
    """found and expected in n equal pieces."""
    size = len(expected) // group_size(look, rank)
    return list(zip(found.split(size), expected.split(size), strict=True))


def _own_piece_only(look: Look, rank: int, found, expected) -> bool:
    right = [same(f, e) for f, e in _pieces(look, rank, found, expected)]
    return group_size(look, rank) > 1 and sum(right) == 1


def _a_piece_returned(look: Look, rank: int, found, expected) -> bool:
    return any(same(found, e) for _, e in _pieces(look, rank, expected, expected))


def _pairs_only(look: Look, rank: int, found, expected) -> bool:
    """Every piece is the sum over two ranks."""
    n = group_size(look, rank)
    own = neighbour_x(look, rank, 0)
    return n > 2 and any(same(found, own + neighbour_x(look, rank, shift)) for shift in range(1, n))


def _other_half_added(look: Look, rank: int, found, expected) -> bool:
    """Of two ranks: one half of the result is the sum of different halves of x."""
    (own_low, own_high), (low, high) = (neighbour_x(look, rank, shift).chunk(2) for shift in (0, 1))
    return group_size(look, rank) == 2 and any(same(half, wrong) for half in found.chunk(2)
                                               for wrong in (own_low + high, own_high + low))


def _pieces_in_other_order(look: Look, rank: int, found, expected) -> bool:
    return sorted(found.tolist()) == sorted(expected.tolist())


EXERCISE = Exercise(
    title="All-reduce by halving and doubling (c)",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
    optional=True,
    technique=Technique(
        demands=(
        only_point_to_point(),
        bytes_sent(lambda look, r: bytes_sent_per_rank("all_reduce", tensor_bytes(look, r), group_size(look, r)),
                   "at most 2(n−1)/n·M bytes",
                   "The sum is right, but whole tensors travel: in each step of the first half a rank sends only the "
                   "half that its partner will keep, and goes on with the other one.", id="whole tensors"),
        messages_at_most(lambda look, r: 2 * int(math.log2(group_size(look, r))), "at most 2·log2 n messages",
                         "The sum is right in as few bytes as can be, but in too many messages: exchange with the "
                         "ranks n/2, n/4, …, 1 away, halving what you send, then back the same way (a ring takes "
                         "2(n−1) messages)."),
        shared_work(),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        ring_stands(),
        message_to_itself("A rank sends to itself: the partner at distance d is r ^ d, and d is never 0."),
        group_ignored(),
        unwaited(),
        mean_for_sum(),
        unchanged("Each rank still holds its own x: nothing that was received was added."),
        Symptom("a piece returned", "Ranks return their own finished piece only: the doubling half, which brings the "
                                    "pieces together, is missing.", wrong_ranks(_a_piece_returned)),
        Symptom("no doubling", "One piece of each rank holds the sum, the rest does not: the halving leaves rank r "
                               "one piece of M/n elements; now double back, exchanging finished pieces.",
                wrong_ranks(_own_piece_only)),
        Symptom("pieces out of place", "All sums are there, but not in their places: keep which half went away in "
                                       "each step, and receive into that place on the way back.",
                wrong_ranks(_pieces_in_other_order)),
        Symptom("one exchange only", "Each value is the sum of two ranks' only: go on exchanging, with ranks at all "
                                     "distances n/2, n/4, …, 1.", wrong_ranks(_pairs_only)),
        Symptom("wrong half", "A rank's lower half was added to its partner's upper half: one of the two keeps the lower "
                              "half and is sent that, the other the upper; the rank whose bit is 0 (r < partner) keeps "
                              "the lower.", wrong_ranks(_other_half_added)),
    ),
    ),
)
