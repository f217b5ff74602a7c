"""Some inputs of a linear layer on each rank: columns of the weight, g behind, and the bias once."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.linears import Parts, changed, linear_cases, result, times_n, whole
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import divides, or_refused
from grader.exercises.technique.linears import IN
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Exercise, Slip
from utils.models.shards import piece


def _right(case: Case, rank: int) -> dict[str, Any]:
    layer = whole(case, rank)
    gradients = {"weight": own_piece(case, rank, layer["dW"], -1), "bias": layer["db"]}
    dx = own_piece(case, rank, layer["dx"], -1)
    return result(case, rank, layer["y"], dx, gradients) | {"bias as it was": True}


def _own_y(case: Case, rank: int) -> Tensor:
    """This rank's part of the sum, and the bias."""
    layer = whole(case, rank)
    return F.linear(own_piece(case, rank, layer["x"], -1), own_piece(case, rank, layer["weight"], -1), layer["bias"])


def _bias_times(case: Case, rank: int, times: int) -> Tensor:
    """y with the bias in it so many times."""
    layer = whole(case, rank)
    return layer["y"] + (times - 1) * layer["bias"]


def _averaged(case: Case, rank: int, right: Parts) -> Parts:
    layer, n = whole(case, rank), case.group_size(rank)
    return {"y": (layer["y"] - layer["bias"]) / n + layer["bias"]} | {name: right[name] / n for name in ("dx", "weight")}


def _with_columns(columns: Callable[[Tensor, int, int], Tensor]) -> Callable[[Case, int, Parts], Parts]:
    """columns(weight, n, k): those of the k-th of n ranks."""

    def change(case: Case, rank: int, right: Parts) -> Parts:
        layer, n = whole(case, rank), case.group_size(rank)
        weights = [columns(layer["weight"], n, k) for k in range(n)]
        ys = [x @ weight.T for x, weight in zip(layer["x"].tensor_split(n, -1), weights, strict=True)]
        return {"y": sum(ys) + layer["bias"], "dx": layer["dy"] @ weights[case.group_rank(rank)]}

    return change


def _bias_of(which: int, gradient_elsewhere: Callable[[Tensor], Tensor | None]) -> Slip:
    """Only the first (0) or last (−1) of the group's ranks adds the bias, the others' has no gradient, or zeros."""

    def change(case: Case, rank: int, right: Parts) -> Parts:
        adds_it = case.members(rank)[which] == rank
        return {} if adds_it or "bias" not in right else {"bias": gradient_elsewhere(right["bias"])}

    return changed("bias's gradient on one rank", (
        "y is right, but only one rank's bias has a gradient, so the ranks' biases will drift apart: every rank adds it, "
        "once, after the sum."), change)


EXERCISE = Exercise(
    title="A linear layer cut by inputs",
    parameters=("linear", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=lambda draw, grading: linear_cases(draw, grading, IN),
    oracle=or_refused(_right),
    measured=True,
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        changed("bias missing", "y lacks the bias.",
                lambda case, r, right: {"y": _bias_times(case, r, 0), "bias": None}),
        *(_bias_of(which, elsewhere) for which in (0, -1) for elsewhere in (lambda right: None, lambda right: 0 * right)),
        changed("bias n times", "The bias is in y n times: every rank added it before the sum. Add it once, after g.",
                lambda case, r, right: {"y": _bias_times(case, r, case.group_size(r))}),
        Slip("an n-th of the bias", "y is right, but every rank's bias is an n-th of the layer's, and each learns from the "
                                    "whole gradient: n times too fast. Keep it whole, and add it after the sum.",
             lambda case, r, right: right[r] | {"bias as it was": case.group_size(r) == 1
                                                or case.inputs[r]["linear"]["bias"] is None}, shows=divides),
        times_n("bias divided", "y is right, but the bias's gradient is n times too small: it was added as n-ths before the "
                                "sum. Add it whole, after g.", "bias", power=-1),
        times_n("bias's gradient summed", "The bias's gradient is n times too large: dy is whole, so each rank's db is "
                                          "complete; nothing is to be summed.", "bias"),
        changed("not summed", "y is this rank's part of the sum only: g is missing.",
                lambda case, r, right: {"y": _own_y(case, r)}),
        changed("f for g", "y is this rank's part of the sum, and the gradients are summed instead: that is f. Here g "
                           "stands behind.",
                lambda case, r, right: {"y": _own_y(case, r)} | {
                    name: right[name] * case.group_size(r) for name in ("dx", "weight")}),
        times_n("summed both ways", "y is right, but dx and dW are n times too large: the sum's backward is the identity, "
                                    "not another sum. Use your g.", "dx", "weight"),
        changed("mean", "y is n times too small: the products are terms of a sum.", _averaged),
        changed("mean", "y is n times too small: the products are terms of a sum.",
                lambda case, r, right: {"y": _averaged(case, r, right)["y"]}),
        changed("f in front", "dx is summed over ranks, but each rank has other inputs: x passes without f here.",
                lambda case, r, right: {"dx": sum(whole(case, r)["dx"].tensor_split(case.group_size(r), -1))}),
        changed("every n-th column", "Rank r has every n-th column of the weight, but its inputs are one piece: columns "
                                     "r·I/n to (r+1)·I/n.", _with_columns(lambda weight, n, k: weight[:, k::n])),
        changed("first columns", "Every rank has the columns of rank 0: its place is its rank in the group.",
                _with_columns(lambda weight, n, k: piece(weight, 0, n, 1))),
    ),
)
