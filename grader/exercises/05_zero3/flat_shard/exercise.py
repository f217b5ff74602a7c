"""A layer's parameters in one flat row, and this rank's shard of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import TWO_GROUPS, each_rank, pieces, ranks
from grader.judging.compare import ANYTHING
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from grader.judging.slips import Wrong

from .technique import ASK_THE_GROUP


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(name: str, n: int, *shapes: tuple[int, ...], groups=None) -> Case:
        parameters = [draw.tensor(*shape, dtype=torch.float64) for shape in shapes]
        return Case(name, ({"parameters": parameters},) * n, groups)

    cases = [of(f"{ranks(n)}, {k}×3 and {k}", n, (k, 3), (k,)) for n, k in (
        (1, 2), (2, 2 * draw.integer(1, 3) + 1), (3, 3 * draw.integer(1, 2) + 2), (4, draw.integer(5, 7)))]
    few = of("4 ranks, 3 numbers", 4, (2, 1), (1,))
    in_groups = of("groups (1,3,4) and (0,2), 7×2", 5, (7, 2), groups=TWO_GROUPS)
    return [*cases, few, in_groups, *([of("5 ranks, 4×4 and 4 and 2", 5, (4, 4), (4,), (2,))] if grading else [])]


def _row(case: Case, rank: int) -> Tensor:
    return torch.cat([one.flatten() for one in case.inputs[rank]["parameters"]])


def _piece(case: Case, rank: int, row: Tensor) -> Tensor:
    return pieces(row, case.group_size(rank))[case.group_rank(rank)]


def _shard(case: Case, rank: int) -> dict[str, Any]:
    shard = _piece(case, rank, _row(case, rank))
    return {"shard": shard, "bytes kept alive": shard.nbytes}


def _cut(cut: Callable[[Tensor, int, int], Tensor]) -> Wrong:
    """cut(row, ranks in the group, rank in the group) is the shard."""
    return lambda case, rank, right: {
        "shard": cut(_row(case, rank), case.group_size(rank), case.group_rank(rank)), "bytes kept alive": ANYTHING}


def _each_by_itself(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    parts = [_piece(case, rank, one.flatten()) for one in case.inputs[rank]["parameters"]]
    return {"shard": torch.cat(parts), "bytes kept alive": ANYTHING}


def _enough(case: Case) -> bool:
    """Whether there is a number for each rank; where there is none, some ways to cut raise an error."""
    return len(_row(case, 0)) >= case.world_size


def _one_way_to_cut(case: Case) -> bool:
    """Whether unequal shards are the same however the row is cut: as chunk does it, or tensor_split."""
    row, sizes = _row(case, 0), {case.group_size(rank) for rank in range(case.world_size)}
    return all([len(one) for one in row.chunk(n)] == [len(one) for one in row.tensor_split(n)] for n in sizes)


EXERCISE = Exercise(
    title="One flat shard of a layer",
    parameters=("parameters", "group"),
    make_cases=_cases,
    oracle=each_rank(_shard),
    trains=True,
    points={VALUES: 2},
    slips=(
        Slip("group ignored", ASK_THE_GROUP, lambda case, r, right: {
            "shard": pieces(_row(case, r), case.world_size)[r], "bytes kept alive": ANYTHING}),
        Slip("not padded", "The last shards are shorter than the others, and an all-gather needs equal ones: pad the row "
                           "with zeros at its end until n divides its length (F.pad).",
             _cut(lambda row, n, r: row.tensor_split(n)[r]), shows=_one_way_to_cut),
        Slip("tail lost", "The last numbers are on no rank: the row's length must be rounded up to a multiple of n, not "
                          "down.", _cut(lambda row, n, r: row[:len(row) // n * n].chunk(n)[r]), shows=_enough),
        Slip("each by itself", "Each parameter is padded and cut by itself: here the whole layer is one row, padded once, "
                               "so that one message brings all of it.", _each_by_itself),
        Slip("padded in front", "The zeros stand before the numbers: pad at the end, F.pad(flat, (0, k)).",
             _cut(lambda row, n, r: F.pad(row, (-len(row) % n, 0)).chunk(n)[r])),
        Slip("dealt like cards", "The numbers are dealt out like cards, every n-th one: a shard is one piece.",
             _cut(lambda row, n, r: F.pad(row, (0, -len(row) % n))[r::n])),
    ),
)
