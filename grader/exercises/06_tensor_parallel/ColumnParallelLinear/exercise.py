"""Some outputs of a linear layer on each rank: f in front, rows of the weight, their part of the bias."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.linears import Parts, changed, linear_cases, result, times_n, whole
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import divides, in_dtype_of, or_refused
from grader.exercises.technique.linears import OUT
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Exercise, Slip
from utils.models.shards import piece


def _copies(case: Case) -> bool:
    """Whether f is this layer's, not the caller's."""
    return case.inputs[0]["options"].get("copy", True)


def _own_dx(case: Case, rank: int) -> Tensor:
    """What this rank's outputs contribute."""
    layer = whole(case, rank)
    return own_piece(case, rank, layer["dy"], -1) @ own_piece(case, rank, layer["weight"])


def _right(case: Case, rank: int) -> dict[str, Any]:
    layer = whole(case, rank)
    dx = layer["dx"] if _copies(case) else _own_dx(case, rank)
    db = None if layer["db"] is None else own_piece(case, rank, layer["db"])
    gradients = {"weight": own_piece(case, rank, layer["dW"]), "bias": db}
    return result(case, rank, own_piece(case, rank, layer["y"], -1), dx, gradients)


def _whole_y(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """Nothing comes back through a y that is too wide."""
    return {"y": in_dtype_of(whole(case, rank)["y"], right[rank]["y"]), "dx": None, "gradients": {}}


def _without_bias(case: Case, rank: int, right: Parts) -> Parts:
    layer = whole(case, rank)
    return {"y": F.linear(layer["x"], own_piece(case, rank, layer["weight"])), "bias": None}


def _f_behind(case: Case, rank: int, right: Parts) -> Parts:
    """Each rank's dy is the sum of all parts of dy."""
    layer = whole(case, rank)
    dy = sum(layer["dy"].tensor_split(case.group_size(rank), -1))
    rows = dy.flatten(0, -2)
    return {"dx": dy @ own_piece(case, rank, layer["weight"]), "weight": rows.T @ layer["x"].flatten(0, -2),
            "bias": rows.sum(0)}


def _x_summed(case: Case, rank: int, right: Parts) -> Parts:
    layer, n = whole(case, rank), case.group_size(rank)
    y = F.linear(n * layer["x"], own_piece(case, rank, layer["weight"]), own_piece(case, rank, layer["bias"]))
    return {"y": y, "weight": n * right["weight"]}


def _g_for_f(case: Case, rank: int, right: Parts) -> Parts:
    """x is summed forward, and dx is not summed backward."""
    return _x_summed(case, rank, right) | {"dx": _own_dx(case, rank)} if _copies(case) else {}


def _f_on_weight(case: Case, rank: int, right: Parts) -> Parts:
    if not _copies(case):
        return {}
    return {"dx": _own_dx(case, rank), "weight": sum(whole(case, rank)["dW"].tensor_split(case.group_size(rank)))}


def _n_th(tensor: Tensor, n: int, k: int) -> Tensor:
    return tensor[k::n]


def _with_rows(rows: Callable[[Tensor, int, int], Tensor],
               of_bias: Callable[[Tensor, int, int], Tensor] | None = None) -> Callable[[Case, int, Parts], Parts]:
    """rows(weight or bias, n, k): those of the k-th of n ranks. of_bias: the bias's, if others."""

    def change(case: Case, rank: int, right: Parts) -> Parts:
        layer, n, r = whole(case, rank), case.group_size(rank), case.group_rank(rank)
        weights = [rows(layer["weight"], n, k) for k in range(n)]
        dxs = [dy @ weight for dy, weight in zip(layer["dy"].tensor_split(n, -1), weights, strict=True)]
        y = F.linear(layer["x"], weights[r], (of_bias or rows)(layer["bias"], n, r))
        return {"y": y, "dx": sum(dxs) if _copies(case) else dxs[r]}

    return change


EXERCISE = Exercise(
    title="A linear layer cut by outputs",
    parameters=("linear", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=lambda draw, grading: linear_cases(draw, grading, OUT),
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        changed("bias missing", "y lacks its part of the bias.", _without_bias),
        Slip("whole y", "y has all outputs: keep this rank's part, the next layer takes it so.", _whole_y,
             shows=lambda case: divides(case) and case.world_size > 1),
        changed("f missing", "y is right, but dx is only what this rank's outputs contribute: x goes through f first.",
                lambda case, r, right: {"dx": _own_dx(case, r)}),
        changed("copy ignored", "With copy=False the caller has put f in front already: leave yours out.",
                lambda case, r, right: {"dx": whole(case, r)["dx"]}),
        changed("copy inverted", "f stands in front where copy is False, and not where it is True.",
                lambda case, r, right: {"dx": _own_dx(case, r) if _copies(case) else whole(case, r)["dx"]}),
        changed("f on the weight", "f is on the weight, so different rows' gradients are summed and dx is not: it belongs "
                                   "on x, which all ranks share.", _f_on_weight),
        changed("f behind", "f stands behind the multiplication and sums the gradients of different outputs: it belongs in "
                            "front, on x.", _f_behind),
        changed("x summed", "x was summed over ranks before the multiplication: that is g. f passes x on.", _x_summed),
        changed("g for f", "x was summed over ranks in forward, and dx is not summed in backward: that is g. In front of a "
                           "column-parallel layer stands f.", _g_for_f),
        changed("every n-th row", "Rank r has every n-th output, but its part is one piece: rows r·O/n to (r+1)·O/n.",
                _with_rows(_n_th)),
        changed("every n-th row", "Rank r has every n-th output, but its part is one piece: rows r·O/n to (r+1)·O/n.",
                _with_rows(_n_th, lambda bias, n, k: piece(bias, k, n))),
        changed("first rows", "Every rank has the rows of rank 0: its place is its rank in the group.",
                _with_rows(lambda tensor, n, k: piece(tensor, 0, n))),
        times_n("times n", "The gradient of x is n times too large: is it summed, and multiplied too?", "dx"),
    ),
)
