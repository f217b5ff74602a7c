"""Some outputs of a linear layer on each rank: f in front, rows of the weight, their part of the bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.calling.sharding import BACKWARD, FORWARD
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.linears import (
    OUT,
    as_,
    first_wrong_part,
    flat,
    linear_cases,
    no_gradient,
    refused,
    result,
    shared_symptoms,
    technique,
    times_n,
    whole,
)
from grader.exercises.shared.split_demands import TOLERANCE, calls_are, no_error
from grader.exercises.shared.split_inputs import piece
from grader.judging.demands import group_size, only_calls
from grader.judging.exercise import Case, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks


def _layer(case: Case, rank: int, *, f: bool = True, rows_of: int | None = None, every_nth: bool = False,
           bias: bool = True, f_behind: bool = False, f_forward: bool = False) -> dict[str, Any]:
    """One rank's part. Wrong ways: no f; another member's rows, or every n-th row; no bias; f behind the multiplication;
    f's sum in forward too."""
    n, r, one = len(case.members(rank)), case.group_rank(rank), whole(case, rank)

    def own(tensor: Tensor | None, dim: int = 0) -> Tensor | None:
        if tensor is None or not every_nth:
            return None if tensor is None else piece(tensor, dim, n, r if rows_of is None else rows_of)
        return tensor[r::n]

    weight, b = own(one["weight"]), own(one["bias"])
    dys = one["dy"].tensor_split(n, -1)
    dy = sum(dys) if f_behind else dys[r]
    x = one["x"] * (n if f_forward else 1)
    y = x @ weight.T + (b if b is not None and bias else 0)
    dx = one["dx"] if f and not f_behind and case.inputs[rank]["options"].get("copy", True) else dy @ weight
    rows, flat_dy = x.flatten(0, -2), dy.flatten(0, -2)
    return result(case, rank, y, dx, flat_dy.T @ rows, None if b is None else flat_dy.sum(0))


def _oracle(case: Case, rank: int) -> dict[str, Any]:
    return refused(case, rank) or _layer(case, rank)


def _other(*parts: str, whatever: Sequence[str] = (), **how: Any) -> Callable[[Look], bool]:
    return as_(lambda look, r: flat(_layer(look.case, r, **how)), *parts, whatever=whatever)


def _gathered(look: Look, rank: int, found: Any, expected: Any) -> bool:
    n = group_size(look, rank)
    return n > 1 and found["y"].shape[-1] == expected["y"].shape[-1] * n


def _copy_ignored(look: Look) -> bool:
    """Only wrong where the caller wants no f."""
    return look.case.inputs[0]["options"].get("copy") is False and as_(
        lambda look, r: {"dx": whole(look.case, r)["dx"].to(look.right[r]["dx"].dtype)}, "dx")(look)


def _wanted(look: Look, rank: int) -> dict[str, int]:
    return {"all_reduce": int(look.case.inputs[rank]["options"].get("copy", True) and not look.case.inputs[rank]["refused"])}


_SHAPES = ("The sizes do not fit: this rank's outputs need the rows [r·O/n, (r+1)·O/n) of the weight (O, I), and the same "
           "part of the bias (O,).")

EXERCISE = Exercise(
    title="Some outputs each",
    parameters=("linear", "group"),
    make_cases=lambda draw, grading: linear_cases(draw, grading, OUT),
    oracle=each_rank(_oracle),
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="The one communication of this layer is f's all-reduce in backward: its output stays "
                                      "in parts."),
        calls_are(FORWARD, {}, "The result is right, but forward communicates: x is whole already.", "forward calls"),
        calls_are(BACKWARD, _wanted, "The result is right, but backward needs one all-reduce, f's, and none with "
                                     "copy=False.",
                  "backward calls"),
        *technique(OUT),
    ),
        symptoms=(
        *shared_symptoms(),
        no_error("Output features"),
        Symptom("bias missing", "y lacks its part of the bias.", _other("y", whatever=["bias"], bias=False)),
        Symptom("whole y", "y has all outputs: keep this rank's part, the next layer takes it so.", wrong_ranks(_gathered)),
        Symptom("no gradient", "A parameter is not there: weight and bias (None where linear has none) must be "
                               "nn.Parameters of those names, made of plain numbers (detach).", wrong_ranks(no_gradient)),
        Symptom("f missing", "y is right, but dx is only what this rank's outputs contribute: x goes through f first.",
                _other("dx", f=False)),
        Symptom("copy ignored", "With copy=False the caller has put f in front already: leave yours out.", _copy_ignored),
        Symptom("f behind", "f stands behind the multiplication and sums the gradients of different outputs: it belongs in "
                            "front, on x.", _other("dx", "weight", "bias", f_behind=True)),
        Symptom("x summed", "x was summed over ranks before the multiplication: that is g. f passes x on.",
                as_(lambda look, r: flat(_layer(look.case, r, f_forward=True)), "y", "dx", "weight")),
        Symptom("every n-th row", "Rank r has every n-th output, but its part is one piece: rows r·O/n to (r+1)·O/n.",
                _other("y", "dx", every_nth=True)),
        Symptom("first rows", "Every rank has the rows of rank 0: its place is its rank in the group.",
                _other("y", "dx", rows_of=0)),
        Symptom("times n", "The gradient of x is n times too large: is it summed, and multiplied too?", times_n("dx")),
        raised("shape", _SHAPES, "shapes"),
        raised("size", _SHAPES, "shapes"),
        Symptom("wrong y", "y is wrong: x W_pᵀ + b_p with this rank's rows.", first_wrong_part("y")),
        Symptom("wrong dx", "y is right, dx is not: the sum over ranks of dy_p W_p, by f.", first_wrong_part("dx")),
        Symptom("wrong gradients", "y and dx are right, a parameter's gradient is not: autograd computes dW_p and db_p "
                                   "if y is made from the parameters.", first_wrong_part("weight", "bias")),
    ),
    ),
)
