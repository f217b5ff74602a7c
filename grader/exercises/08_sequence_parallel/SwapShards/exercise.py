"""All-to-all that cuts a tensor along one dimension and joins it along another; its conjugate is itself, reversed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.long_attention import where_wrong
from grader.exercises.technique.sharding import first_wrong
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, shape: Sequence[int], cut: int, join: int,
               dtype: torch.dtype = torch.float64) -> list[dict[str, Any]]:
        """Of each rank: x, with n equal pieces along `cut`; and weights for the loss, in the shape of the result."""
        swapped = [size // n if d == cut else size * n if d == join else size for d, size in enumerate(shape)]
        return [{"x": draw.tensor(*shape, dtype=dtype), "cut": cut, "join": join,
                 "weights": draw.tensor(*swapped, dtype=dtype)} for _ in range(n)]

    def case(n: int, shape: Sequence[int], cut: int, join: int, dtype: torch.dtype = torch.float64) -> Case:
        what = "" if dtype == torch.float64 else f", {str(dtype).removeprefix('torch.')}"
        return Case(f"{ranks(n)}, {'×'.join(map(str, shape))}, cut {cut}, join {join}{what}",
                    tuple(inputs(n, shape, cut, join, dtype)))

    cases = [case(1, (2, 3, 4, 5), 1, 2), case(2, (2, 4, 3, 5), 1, 2), case(4, (2, 2, 12, 3), 2, 1),
             case(3, (1, 6, 2, 3), 1, 2), case(2, (3, 2, 5, 4), 1, 2, torch.bfloat16)]
    cases += [case(3, (6, 4, 5), 0, 2), case(4, (2, 8, draw.integer(1, 5), 3), 1, 2)] * grading
    return [*cases, group_case(lambda n: inputs(n, (2, n, 3, 2), 1, 2))]


def _swap(tensors: Sequence[Tensor], r: int, cut: int, join: int) -> Tensor:
    """Rank r's result."""
    return torch.cat([x.chunk(len(tensors), cut)[r] for x in tensors], join)


def _whole(case: Case, rank: int) -> dict[str, Tensor]:
    """x of all ranks, joined to the whole, is cut the other way; the gradient the way back."""
    inputs, n, r = case.inputs[rank], len(case.members(rank)), case.group_rank(rank)
    cut, join = inputs["cut"], inputs["join"]
    whole = torch.cat(case.peers_inputs(rank, "x"), join).requires_grad_()
    (whole * torch.cat(case.peers_inputs(rank, "weights"), cut)).sum().backward()
    return {"y": whole.detach().chunk(n, cut)[r].clone(), "dx": whole.grad.chunk(n, join)[r].clone()}


def _y(found_as: Callable[[Look, int, int, int], Tensor]) -> Callable[[Look], bool]:
    """y, where it is wrong, is what found_as(look, rank, cut, join) gives."""
    return where_wrong("y", lambda look, rank: found_as(
        look, rank, look.case.inputs[rank]["cut"], look.case.inputs[rank]["join"]))


def _reversed(look: Look, rank: int, cut: int, join: int) -> Tensor:
    return _swap(look.case.peers_inputs(rank, "x")[::-1], look.case.group_rank(rank), cut, join)


def _not_joined(look: Look, rank: int, cut: int, join: int) -> Tensor:
    return _swap(look.case.peers_inputs(rank, "x"), look.case.group_rank(rank), cut, cut)


def _own(look: Look, rank: int, cut: int, join: int) -> Tensor:
    """Each piece from this rank itself."""
    return torch.cat(look.case.inputs[rank]["x"].chunk(group_size(look, rank), cut), join)


def _interleaved(look: Look, rank: int, cut: int, join: int) -> Tensor:
    pieces = [x.chunk(group_size(look, rank), cut)[look.case.group_rank(rank)] for x in look.case.peers_inputs(rank, "x")]
    return torch.stack(pieces, join + 1).flatten(join, join + 1)


def _every_nth(look: Look, rank: int, cut: int, join: int) -> Tensor:
    n, r = group_size(look, rank), look.case.group_rank(rank)
    pieces = [x.unflatten(cut, (-1, n)).select(cut + 1, r) for x in look.case.peers_inputs(rank, "x")]
    return torch.cat(pieces, join)


def _gradient(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """dx is made as if backward swapped the same way as forward."""
    inputs = look.case.inputs[rank]
    return same(found["y"], expected["y"]) and same(found["dx"].flatten(), _swap(
        look.case.peers_inputs(rank, "weights"), look.case.group_rank(rank), inputs["cut"], inputs["join"]).flatten())


def _unmoved(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """dx has this rank's own numbers of dy only."""
    def numbers(x: Tensor) -> list[float]:
        return sorted(x.double().flatten().tolist())

    return same(found["y"], expected["y"]) and numbers(found["dx"]) == numbers(look.case.inputs[rank]["weights"])


def _sent(look: Look, rank: int) -> float:
    return 2 * bytes_sent_per_rank("all_to_all", look.case.inputs[rank]["x"].nbytes, group_size(look, rank))


def _both_ways(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        found = len(look.evidence.trace.of(rank, "all_to_all"))
        if group_size(look, rank) > 1 and found != 2:
            return False, f"rank {rank} swapped {found} time{'s' * (found != 1)}, wanted 2"
    return True, ""


def _first_wrong(name: str) -> Callable[[Look], bool]:
    return lambda look: first_wrong(look, ("y", "dx")) == name


_SIZE = ("The pieces do not fit: cut x into n equal pieces along `cut`, send each one contiguous, and join what arrives "
         "along `join`.")

EXERCISE = Exercise(
    title="Swap what is cut",
    parameters=("x", "cut", "join", "group"),
    make_cases=_cases,
    oracle=each_rank(_whole),
    optional=True,
    technique=Technique(
        demands=(
        only_calls("all_to_all", hint="One all-to-all is enough: each rank gets from each other one piece, and no rank ever "
                                      "holds the whole tensor."),
        Demand("not one swap each way", "one all-to-all forward, one backward", "The result is right, but each way takes "
               "one all-to-all.", _both_ways),
        bytes_sent(_sent, "(n−1)/n of x each way", "Right, but more was sent than (n−1)/n of x each way."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group, and ask dist.get_world_size(group)."),
        unwaited(),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx, None, None, "
               "None.", "too few gradients"),
        Symptom("pieces not sent", "Every piece is this rank's own: what arrived is not used.", _y(_own)),
        Symptom("pieces in reverse", "The pieces are joined in the wrong order: the one from rank 0 comes first.",
                _y(_reversed)),
        Symptom("joined along cut", "The pieces are joined along `cut`, where they came from: join them along `join`.",
                _y(_not_joined)),
        Symptom("interleaved", "The pieces are interleaved along `join`: rank 0's positions come first, then rank 1's. A "
                               "view or reshape of the received row mixes them.", _y(_interleaved)),
        Symptom("every nth", "Rank r took every n-th slice along `cut`: it should get the r-th of n equal pieces.",
                _y(_every_nth)),
        Symptom("conjugate not reversed", "y is right, dx was swapped the same way as forward: going back, what was joined "
                                          "is cut and what was cut is joined.", wrong_ranks(_gradient)),
        Symptom("conjugate missing", "y is right, but dx holds nothing but this rank's own dy: the gradient of a piece "
                                     "belongs to the rank that it came from. Backward is a swap too.",
                wrong_ranks(_unmoved)),
        Symptom("wrong output", "y is wrong: from rank s comes the piece number r of its x, and the n pieces are joined "
                                "along `join` in the order of ranks.", _first_wrong("y")),
        Symptom("wrong dx", "y is right, dx is not: swap dy with cut and join exchanged.", _first_wrong("dx")),
        raised("size", _SIZE, "pieces do not fit"),
        raised("split", _SIZE, "pieces do not split"),
    ),
    ),
)
