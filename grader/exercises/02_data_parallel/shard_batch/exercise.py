"""Shard the batch: this rank's rows of it, one piece, sizes that differ by one at most."""

import torch
from torch import Tensor

from grader.exercises.shared import cuts
from grader.exercises.shared.cases import TWO_GROUPS, counted, each_rank, ranks
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

_ASK_THE_GROUP = ("Right for the whole world, wrong in a group: ask dist.get_rank(group) and dist.get_world_size(group), "
                  "both of them.")


def _columns(x_BD: Tensor, r: int, n: int) -> Tensor:
    return x_BD.tensor_split(n, dim=1)[r]


def _cases(draw: Draw, grading: bool) -> list[Case]:
    sizes = [(1, 3), (2, 2 * draw.integer(1, 3)), (3, 3 * draw.integer(2, 4) + 1), (4, 4 * draw.integer(1, 3) + 3), (4, 2)]
    if grading:
        sizes += [(5, 5 * draw.integer(1, 2) + 4), (3, 1)]
    cases = []
    for n, rows in sizes:
        unlike = rows == 2 < n  # an empty share has the batch's dtype and its other dims, too
        x_BD = draw.tensor(rows, 2, *[3] * unlike, dtype=torch.float64 if unlike else torch.float32)
        cases.append(Case(f"{counted(rows, 'row')} on {ranks(n)}", ({"x_BD": x_BD},) * n))
    x_BD = draw.tensor(7, 2, dtype=torch.float64)
    return [*cases, Case("7 rows in groups (1,3,4) and (0,2)", ({"x_BD": x_BD},) * 5, TWO_GROUPS)]


def _later_ones_larger(x_BD: Tensor, r: int, n: int) -> Tensor:
    """The last B mod n ranks have one row more."""
    return x_BD.flip(0).tensor_split(n)[n - 1 - r].flip(0)


def _bounds_rounded(x_BD: Tensor, r: int, n: int) -> Tensor:
    return x_BD[r * len(x_BD) // n:(r + 1) * len(x_BD) // n]


def _own_size_for_all(x_BD: Tensor, r: int, n: int) -> Tensor:
    size = len(cuts.balanced(x_BD, r, n))
    return x_BD[r * size:(r + 1) * size]


def _nothing_without_shape(dtype: torch.dtype | None) -> Slip:
    """A share without rows is a new tensor, of this dtype or of x_BD's."""
    return Slip("no columns", "A share without rows still has its columns: shape (0, D), a slice of x_BD, not a new empty "
                              "tensor.",
                lambda case, r, right: right[r] if len(right[r]) else torch.empty(0, dtype=dtype or right[r].dtype))


_WHO_HAS_MORE = ("The sizes differ by one, as they should, but it is not the first B mod n ranks that have one row more: "
                 "begin with the larger shares.")


def _chunks_enough(case: Case) -> bool:
    """torch.chunk makes a part for every rank; where it does not, asking for one raises."""
    x_BD = case.inputs[0]["x_BD"]
    return all(len(x_BD.chunk(len(case.members(rank)))) == len(case.members(rank)) for rank in range(case.world_size))


EXERCISE = Exercise(
    title="Shard the batch",
    parameters=("x_BD", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: cuts.balanced(case.inputs[r]["x_BD"], case.group_rank(r), case.group_size(r))),
    points={VALUES: 2},
    slips=(
        cuts.cut_by("everything", "x_BD", cuts.everything,
                    "Every rank keeps the whole batch, so all do the same work: keep this rank's rows."),
        cuts.cut_by("rows dropped", "x_BD", cuts.rounded_down,
                    "B // n drops the rows that do not divide: nobody trains on them. Give one row more to each of the "
                    "first B mod n ranks."),
        cuts.cut_by("rest to the last", "x_BD", cuts.rest_to_the_last,
                    "The last rank takes all rows that are left over; the others would wait for it. Give one row more to "
                    "each of the first B mod n ranks."),
        cuts.cut_by("rounded up", "x_BD", cuts.rounded_up,
                    "torch.chunk rounds the size up: 7 rows on 4 ranks become 2, 2, 2, 1, but 2 rows on 4 ranks two "
                    "chunks only. Sizes may differ by one, and there must be n parts (tensor_split makes them).",
                    _chunks_enough),
        cuts.cut_by("dealt like cards", "x_BD", cuts.dealt,
                    "The sizes are right, but the rows are dealt out like cards (every n-th one): a shard is one piece."),
        cuts.cut_by("columns", "x_BD", _columns,
                    "The batch is cut along D, its columns: data parallelism cuts along B, the rows."),
        cuts.cut_by("others have more", "x_BD", _later_ones_larger, _WHO_HAS_MORE),
        cuts.cut_by("others have more", "x_BD", _bounds_rounded, _WHO_HAS_MORE),
        cuts.cut_by("own size for all", "x_BD", _own_size_for_all,
                    "A share does not begin at r times its own size where shares before it are larger: count the rows that "
                    "the ranks before have."),
        *map(_nothing_without_shape, (torch.float32, None)),
        cuts.cut_for_the_world("group ignored", "x_BD", _ASK_THE_GROUP),
        Slip("group ignored", _ASK_THE_GROUP, lambda case, r, right: cuts.balanced(
            case.inputs[r]["x_BD"], r % case.group_size(r), case.group_size(r))),
        Slip("group ignored", _ASK_THE_GROUP, lambda case, r, right: cuts.balanced(
            case.inputs[r]["x_BD"], case.group_rank(r), case.world_size)),
    ),
)
