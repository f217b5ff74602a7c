"""Challenge: all-reduce by recursive halving and doubling; as few bytes as a ring in 2·log2 n messages."""

from collections.abc import Callable, Iterable

import torch

from grader.calling.with_group import AGAIN
from grader.exercises.shared.cases import (
    again,
    big_case,
    counted,
    each_rank,
    ranks,
    same_shape,
    subgroup_case,
    total,
    xs_of,
)
from grader.exercises.shared.collectives import MEAN_FOR_SUM, written_over
from grader.judging.exercise import Case, Draw, Exercise, Slip
from grader.judging.slips import unchanged


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Numbers of ranks that are powers of two, lengths that they divide; in one case it is called again."""
    sizes = [(1, 3), (2, draw.integer(1, 4)), (4, draw.integer(1, 4)), (8, draw.integer(1, 3))]
    if grading:
        sizes += [(4, 1), (8, 5)]
    cases = [same_shape(f"{ranks(n)}, {counted(n * k, 'element')}", draw, n, (n * k,)) for n, k in sizes]
    cases.append(again(same_shape("2 ranks, float64", draw, 2, (4,), torch.float64)))
    cases.append(subgroup_case(draw, lambda n: (2 * n,), ((0, 2, 5, 7), (1, 3, 4, 6))))
    return [*cases, big_case("4 ranks, 512 KiB", draw, 4, (1 << 17,))]


def _with_partner(case: Case, rank: int, distance: int) -> torch.Tensor:
    """The sum of two ranks' x."""
    return case.inputs[rank]["x"] + xs_of(case, rank)[case.group_rank(rank) ^ distance]


def _crossed_halves(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """Of two ranks: the lower half of x is added to the partner's upper half, and the other way round."""
    (low, high), (partners_low, partners_high) = (case.inputs[r]["x"].chunk(2) for r in (rank, 1 - rank))
    return torch.cat([low + partners_high, partners_low + high])


def _swapped(case: Case, rank: int, kept_sent: bool = False, replaced: bool = False, adds: bool = False,
             nearest: int = 1, back: Callable[[list], Iterable] = reversed, turned: bool = False) -> torch.Tensor:
    """What the swaps give if something in them is otherwise: the kept half sent, what comes not added; on the way back
    added, in another order, or with the halves' roles as before; swaps at some distances left out."""
    arrays, swaps = [x.clone() for x in xs_of(case, rank)], []
    n = len(arrays)
    kept = [x.view(-1) for x in arrays]

    def exchange(distance: int, sent: list[torch.Tensor], goals: list[torch.Tensor], adds: bool) -> None:
        received = [sent[r ^ distance].clone() for r in range(n)]
        for goal, part in zip(goals, received, strict=True):
            goal.copy_(goal + part if adds else part)

    for distance in (2**k for k in reversed(range(n.bit_length() - 1)) if 2**k >= nearest):
        halves = [piece.chunk(2)[::1 if r < r ^ distance else -1] for r, piece in enumerate(kept)]
        kept, given = (list(part) for part in zip(*halves, strict=True))
        exchange(distance, kept if kept_sent else given, kept, not replaced)
        swaps.append((distance, *((given, kept) if turned else (kept, given))))
    for distance, sent, goals in back(swaps):
        exchange(distance, sent, goals, adds)
    return arrays[case.group_rank(rank)]


EXERCISE = Exercise(
    title="All-reduce by halving and doubling (c)",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
    slips=(
        MEAN_FOR_SUM,
        unchanged("Each rank still holds its own x: nothing that was received was added."),
        Slip("a piece returned", "Ranks return their own finished piece only: the doubling half, which brings the pieces "
                                 "together, is missing.",
             lambda case, r, right: right[r].chunk(case.group_size(r))[case.group_rank(r)]),
        *(Slip("one exchange only", "Each value is the sum of two ranks' only: go on exchanging, with ranks at all "
                                    "distances n/2, n/4, …, 1.",
               lambda case, r, right, distance=distance: _with_partner(case, r, distance(case.group_size(r))),
               shows=lambda case: case.world_size > 1) for distance in (lambda n: n // 2, lambda n: 1)),
        Slip("second phase adds", "In the second phase finished pieces travel: put them in their place, where you add them "
             "to what is there.", lambda case, r, right: _swapped(case, r, adds=True)),
        Slip("second phase forwards", "The second phase goes through the swaps in the order of the first: it must go "
             "through them backwards, so that the last piece to be halved is the first to be doubled.",
             lambda case, r, right: _swapped(case, r, back=list)),
        Slip("an exchange is missing", "The exchange at distance 1 is missing: the distances are n/2, n/4, …, 2 and 1.",
             lambda case, r, right: _swapped(case, r, nearest=2)),
        Slip("kept half sent", "A rank sends the half that it keeps: send the other one, which your partner keeps.",
             lambda case, r, right: _swapped(case, r, kept_sent=True)),
        Slip("nothing added", "What arrives in the first phase replaces what a rank has: add it to the half that is kept.",
             lambda case, r, right: _swapped(case, r, replaced=True)),
        Slip("halves exchanged on the way back", "On the way back the finished half is sent, the one that was kept, and "
             "what comes belongs where the other half was: the roles are exchanged.",
             lambda case, r, right: _swapped(case, r, turned=True)),
        Slip("wrong half", "A rank's lower half was added to its partner's upper half: one of the two keeps the lower "
                           "half and is sent that, the other the upper; the rank whose bit is 0 (r < partner) keeps the "
                           "lower.", _crossed_halves, shows=lambda case: case.world_size == 2),
        Slip("swaps of an earlier call", "In a second call only one half is summed: the swaps that were remembered are "
             "those of an earlier call, and their pieces are views of its array. Make the list anew in each call.",
             lambda case, r, right: _swapped(case, r, back=lambda swaps: []) if AGAIN in case.inputs[r] else right[r]),
        written_over("The sum that a call returned changed when the function was called again: both lie in one array, kept "
                     "from call to call. Make a new one in each call, x.clone()."),
    ),
)
