"""A layer's parameters in one flat buffer, and this rank's shard of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared import cuts
from grader.exercises.shared.cases import TWO_GROUPS, each_rank, pieces, ranks
from grader.exercises.shared.split_inputs import numbers
from grader.exercises.shared.zero_cases import own_shard
from grader.judging.compare import ANYTHING
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

from .technique import ASK_THE_GROUP


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(name: str, n: int, *shapes: tuple[int, ...], groups=None) -> Case:
        parameters = [numbers(draw, *shape, divisor=1) for shape in shapes]
        return Case(name, ({"parameters": parameters},) * n, groups)

    cases = [of("1 rank, 2×3", 1, (2, 3))]  # the whole buffer is one parameter: nothing to join, to pad or to cut
    cases += [of(f"{ranks(n)}, {k}×3 and {k}", n, (k, 3), (k,)) for n, k in (
        (2, 2 * draw.integer(1, 3) + 1), (3, 3 * draw.integer(1, 2) + 2), (4, draw.integer(5, 7)))]
    cases.append(of("4 ranks, 3×3", 4, (3, 3)))  # three zeros, all of them on the last rank
    few = of("4 ranks, 3 elements", 4, (2, 1), (1,))
    in_groups = of("groups (1,3,4) and (0,2), 7×2", 5, (7, 2), groups=TWO_GROUPS)
    return [*cases, few, in_groups, *([of("5 ranks, 4×4 and 4 and 2", 5, (4, 4), (4,), (2,))] if grading else [])]


def _row(case: Case, rank: int) -> Tensor:
    return torch.cat([parameter.flatten() for parameter in case.inputs[rank]["parameters"]])


def _result(case: Case, rank: int) -> dict[str, Any]:
    shard = own_shard(case, rank, _row(case, rank))
    return {"shard": shard, "bytes kept alive": shard.nbytes, "has a history": False}


def _wrong(id: str, hint: str, shard: Callable[[Case, int], Tensor], **shows: Callable[[Case], bool]) -> Slip:
    """The shard is shard(case, rank), whatever it keeps alive."""
    return Slip(id, hint, lambda case, r, right: {"shard": shard(case, r), "bytes kept alive": ANYTHING,
                                                  "has a history": ANYTHING}, **shows)


def _cut(cut: cuts.Cut) -> Callable[[Case, int], Tensor]:
    """The shard is cut out of the flat buffer in this way."""
    return lambda case, rank: cut(_row(case, rank), case.group_rank(rank), case.group_size(rank))


def _enough(case: Case) -> bool:
    """Whether there is a number for each rank; where there is none, some ways to cut raise an error."""
    return len(_row(case, 0)) >= case.world_size


def _one_way_to_cut(case: Case) -> bool:
    """Whether unequal shards are the same however the flat buffer is cut: as chunk does it, or tensor_split."""
    row, sizes = _row(case, 0), {case.group_size(rank) for rank in range(case.world_size)}
    return all([len(part) for part in row.chunk(n)] == [len(part) for part in row.tensor_split(n)] for n in sizes)


def _padded_after_the_cut(row: Tensor, rank: int, n: int) -> Tensor:
    part = row.tensor_split(n)[rank]
    return F.pad(part, (0, -(-len(row) // n) - len(part)))


EXERCISE = Exercise(
    title="One flat shard of a layer",
    parameters=("parameters", "group"),
    make_cases=_cases,
    oracle=each_rank(_result),
    trains=True,
    forbidden=("torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed._shard"),
    points={VALUES: 2},
    slips=(
        _wrong("group ignored", ASK_THE_GROUP, lambda case, r: pieces(_row(case, r), case.world_size)[r]),
        _wrong("not padded", "The last shards are shorter than the others, and an all-gather needs equal ones: pad the "
                             "flat buffer with zeros at its end until n divides its length (F.pad).",
               _cut(cuts.balanced), shows=_one_way_to_cut),
        _wrong("tail lost", "The last elements are on no rank: the buffer's length must be rounded up to a multiple of "
                            "n, not down.", _cut(cuts.rounded_down), shows=_enough),
        _wrong("each by itself", "Each parameter is padded and cut by itself: here the whole layer is one flat buffer, "
                                 "padded once, so that one message brings all of it.",
               lambda case, r: torch.cat([own_shard(case, r, p.flatten()) for p in case.inputs[r]["parameters"]])),
        _wrong("zeros in between", "Each parameter is padded by itself before they are joined, so zeros stand in the middle "
                                   "of the buffer: join them first, and pad once, at the end.",
               lambda case, r: own_shard(case, r, torch.cat([F.pad(p.flatten(), (0, -p.numel() % case.group_size(r)))
                                                             for p in case.inputs[r]["parameters"]]))),
        _wrong("padded in front", "The zeros stand before the elements: pad at the end, F.pad(flat, (0, k)).",
               _cut(lambda row, r, n: F.pad(row, (-len(row) % n, 0)).chunk(n)[r])),
        _wrong("one too many", "The shards are one element too long where n divides the length: there is nothing to pad.",
               _cut(lambda row, r, n: F.pad(row, (0, n * (len(row) // n + 1) - len(row))).chunk(n)[r])),
        _wrong("turned over", "The elements of a weight come in the order of its columns: flatten() it as it stands, "
                              "without transposing.",
               lambda case, r: own_shard(case, r, torch.cat([p.T.flatten() if p.ndim == 2 else p
                                                             for p in case.inputs[r]["parameters"]]))),
        _wrong("other order", "The parameters are joined in another order than that of the list.",
               lambda case, r: own_shard(case, r, torch.cat([p.flatten() for p in case.inputs[r]["parameters"][::-1]]))),
        _wrong("none for the last", "Where there are fewer elements than ranks, the last ranks must have a zero, not "
                                    "nothing: all shards have one length, so that one message brings them all.",
               lambda case, r: own_shard(case, r, _row(case, r))[:int(case.group_rank(r) < len(_row(case, r)))],
               shows=lambda case: not _enough(case)),
        _wrong("padded after the cut", "The buffer is cut as evenly as it goes, and then each part gets zeros of its own: "
                                       "pad the whole buffer first, so that all zeros stand at its end, and then cut it.",
               _cut(_padded_after_the_cut), shows=lambda case: _enough(case) and not _one_way_to_cut(case)),
        _wrong("shared memory", "Alone on one rank, the shard lies in a parameter's own memory: flatten() copies nothing "
                                "where nothing has to move. Its memory is to be its own: clone() it.",
               lambda case, r: -_row(case, r),
               shows=lambda case: case.world_size == 1),
        Slip("has a history", "The shard is no leaf: autograd remembers that it was cut out of the parameters, keeps that "
                              "graph, and no optimizer takes it. detach() each parameter.",
             lambda case, r, right: right[r] | {"bytes kept alive": ANYTHING, "has a history": True}),
        _wrong("dealt like cards", "The elements are dealt out like cards, every n-th one: a shard is one range of the "
                                   "buffer.",
               _cut(lambda row, r, n: F.pad(row, (0, -len(row) % n))[r::n])),
    ),
)
