"""All-to-all that cuts a tensor along one dimension and joins it along another; its conjugate is itself, reversed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks, xs_of
from grader.exercises.shared.conjugates import DIFFERENTIABLE
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.exercise import Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, shape: Sequence[int], cut: int, join: int,
               dtype: torch.dtype = torch.float64) -> list[dict[str, Any]]:
        """Of each rank: x, with n equal parts along `cut`; and weights for the loss, in the shape of the result."""
        swapped = [size // n if d == cut else size * n if d == join else size for d, size in enumerate(shape)]
        return [{"x": draw.tensor(*shape, dtype=dtype), "cut": cut, "join": join,
                 "weights": draw.tensor(*swapped, dtype=dtype)} for _ in range(n)]

    def case(n: int, shape: Sequence[int], cut: int, join: int, dtype: torch.dtype = torch.float64) -> Case:
        what = "" if dtype == torch.float64 else f", {str(dtype).removeprefix('torch.')}"
        return Case(f"{ranks(n)}, {'×'.join(map(str, shape))}, cut {cut}, join {join}{what}",
                    tuple(inputs(n, shape, cut, join, dtype)))

    cases = [case(1, (2, 3, 4, 5), 1, 2), case(2, (2, 4, 3, 5), 1, 2), case(4, (2, 2, 12, 3), 2, 1),
             case(3, (1, 2, 3, 3), 3, 1), case(2, (3, 2, 5, 4), 1, 2, torch.bfloat16)]
    more = [case(3, (6, 4, 5), 0, 2), case(4, (2, 8, draw.integer(1, 5), 3), 1, 2)]  # drawn always: what follows is the same
    return [*cases, *(more if grading else []), group_case(lambda n: inputs(n, (2, n, 3, 2), 1, 2))]


def _right(case: Case, rank: int) -> dict[str, Tensor]:
    """x of all ranks, joined to the whole, is cut the other way; the gradient the way back."""
    n, r = case.group_size(rank), case.group_rank(rank)
    cut, join = _dims(case, rank)
    whole = torch.cat(xs_of(case, rank), join).requires_grad_()
    (whole * torch.cat(case.peers_inputs(rank, "weights"), cut)).sum().backward()
    return {"y": whole.detach().chunk(n, cut)[r].clone(), "dx": whole.grad.chunk(n, join)[r].clone()}


def _dims(case: Case, rank: int) -> tuple[int, int]:
    """cut, join."""
    return case.inputs[rank]["cut"], case.inputs[rank]["join"]


# ── slips ──


def _received(case: Case, rank: int, name: str = "x") -> list[Tensor]:
    """This rank's part along `cut` of each member's tensor."""
    cut, _ = _dims(case, rank)
    return [x.chunk(case.group_size(rank), cut)[case.group_rank(rank)] for x in case.peers_inputs(rank, name)]


def _output(id: str, hint: str, wrong: Callable[[Case, int, int, int], Tensor]) -> Slip:
    """y is wrong(case, rank, cut, join)."""
    return first_wrong_slip(id, hint, "y", lambda case, rank, y: wrong(case, rank, *_dims(case, rank)))


def _gradient(id: str, hint: str, wrong: Callable[[Case, int, int, int], Tensor],
              shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """dx is wrong(case, rank, cut, join), in the shape of x."""
    return first_wrong_slip(
        id, hint, "dx", lambda case, rank, dx: wrong(case, rank, *_dims(case, rank)).reshape(dx.shape), shows)


def _every_nth(case: Case, rank: int, cut: int, join: int) -> Tensor:
    n, r = case.group_size(rank), case.group_rank(rank)
    return torch.cat([x.unflatten(cut, (-1, n)).select(cut + 1, r) for x in xs_of(case, rank)], join)


def _splits_again(case: Case) -> bool:
    """Whether the result can be cut once more the same way."""
    return all(inputs["weights"].shape[inputs["cut"]] % case.group_size(rank) == 0
               for rank, inputs in enumerate(case.inputs))


EXERCISE = Exercise(
    title="Swap what is cut",
    parameters=("x", "cut", "join", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    forbidden=DIFFERENTIABLE,
    slips=(
        _output("pieces not sent", "Every part is this rank's own: what arrived is not used.",
                lambda case, r, cut, join: torch.cat(case.inputs[r]["x"].chunk(case.group_size(r), cut), join)),
        _output("pieces in reverse", "The parts are joined in the wrong order: the one from rank 0 comes first.",
                lambda case, r, cut, join: torch.cat(_received(case, r)[::-1], join)),
        _output("joined along cut", "The parts are joined along `cut`, where they came from: join them along `join`.",
                lambda case, r, cut, join: torch.cat(_received(case, r), cut)),
        _output("interleaved", "The parts are interleaved along `join`: rank 0's positions come first, then rank 1's. A "
                               "view or reshape of the received buffer mixes them.",
                lambda case, r, cut, join: torch.stack(_received(case, r), join + 1).flatten(join, join + 1)),
        _output("every nth", "Rank r took every n-th slice along `cut`: it should get the r-th of n equal parts.",
                _every_nth),
        _gradient("conjugate not reversed", "y is right, dx was swapped the same way as forward: going back, what was "
                                            "joined is cut and what was cut is joined.",
                  lambda case, r, cut, join: torch.cat(_received(case, r, "weights"), join), _splits_again),
        *(first_wrong_slip("gradient scaled", "y is right, dx is n times too large or too small: every number goes to one "
                           "rank and its gradient comes back from there, as it is.", "dx",
                           lambda case, r, dx, power=power: dx * float(case.group_size(r)) ** power) for power in (1, -1)),
        _output("cut as a row", "x was cut as one flat buffer, by view or reshape: cut it along the dimension `cut`.",
                lambda case, r, cut, join: torch.cat([
                    x.flatten().chunk(case.group_size(r))[case.group_rank(r)].view_as(x.chunk(case.group_size(r), cut)[0])
                    for x in xs_of(case, r)], join)),
        _gradient("conjugate missing", "y is right, but dx holds nothing but this rank's own dy: the gradient of a part "
                                       "belongs to the rank that it came from. Backward is a swap too.",
                  lambda case, r, cut, join: torch.cat(case.inputs[r]["weights"].chunk(case.group_size(r), join), cut)),
    ),
)
