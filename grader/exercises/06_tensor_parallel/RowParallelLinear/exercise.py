"""Some inputs of a linear layer on each rank: columns of the weight, g behind, and the bias once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.calling.sharding import BACKWARD, FORWARD
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.linears import (
    IN,
    as_,
    divided,
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
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks


def _layer(case: Case, rank: int, *, summed: bool = True, bias_times: float | None = None,
           columns_of: int | None = None, every_nth: bool = False, y_times: float = 1.0) -> dict[str, Any]:
    """One rank's part. Wrong ways: no sum; the bias counted otherwise; another member's columns, or every n-th; y scaled."""
    n, r, one = len(case.members(rank)), case.group_rank(rank), whole(case, rank)

    def columns(k: int) -> Tensor:
        return one["weight"][:, k::n] if every_nth else piece(one["weight"], 1, n, k if columns_of is None else columns_of)

    parts = [piece(one["x"], -1, n, k) @ columns(k).T for k in range(n)]
    y = (sum(parts) if summed else parts[r]) * y_times
    if one["bias"] is not None:
        y = y + one["bias"] * (1 if bias_times is None else bias_times)
    return result(case, rank, y, one["dy"] @ columns(r), piece(one["dW"], 1, n, r), one["db"])


def _oracle(case: Case, rank: int) -> dict[str, Any]:
    return refused(case, rank) or _layer(case, rank)


def _other(*parts: str, n_power: str = "", power: int = 0, whatever: Sequence[str] = (),
           **how: Any) -> Callable[[Look], bool]:
    """As another way; n_power: the keyword that gets n**power."""
    def made(look: Look, rank: int) -> dict[str, Any]:
        more = {n_power: float(len(look.case.members(rank))) ** power} if n_power else {}
        return flat(_layer(look.case, rank, **how, **more))

    return as_(made, *parts, whatever=whatever)


def _times(look: Look, rank: int, *parts: str) -> dict[str, Tensor]:
    """These parts of the right result, n times."""
    return {part: flat(look.right[rank])[part] * len(look.case.members(rank)) for part in parts}


def _bias_of_one(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """Only the bias's gradient is wrong: none, or zeros."""
    now, right = flat(found), flat(expected)
    gradient = now.get("bias")
    return "bias" in right and (gradient is None or not gradient.any())


_SHAPES = ("The sizes do not fit: this rank's x (…, I/n) needs the columns [r·I/n, (r+1)·I/n) of the weight (O, I); the "
           "bias (O,) stays whole.")

EXERCISE = Exercise(
    title="Some inputs each",
    parameters=("linear", "group"),
    make_cases=lambda draw, grading: linear_cases(draw, grading, IN),
    oracle=each_rank(_oracle),
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="The one communication of this layer is g's all-reduce in forward: gathering inputs "
                                      "or products moves more."),
        calls_are(FORWARD, lambda look, r: {"all_reduce": int(not look.case.inputs[r]["refused"])},
                  "The result is right, but forward needs one all-reduce, g's.", "forward calls"),
        calls_are(BACKWARD, {}, "The result is right, but backward communicates: dy is whole on every rank already.",
                  "backward calls"),
        *technique(IN),
    ),
        symptoms=(
        *shared_symptoms(),
        no_error("Input features"),
        Symptom("bias missing", "y lacks the bias.", _other("y", whatever=["bias"], bias_times=0.0)),
        Symptom("bias's gradient on one rank", "y is right, but only one rank's bias has a gradient, so the ranks' biases "
                "will drift apart: every rank adds it, once, after the sum.", wrong_ranks(_bias_of_one)),
        Symptom("no gradient", "A parameter is not there: weight and bias (None where linear has none) must be "
                               "nn.Parameters of those names, made of plain numbers (detach).", wrong_ranks(no_gradient)),
        Symptom("bias n times", "The bias is in y n times: every rank added it before the sum. Add it once, after g.",
                _other("y", n_power="bias_times", power=1)),
        Symptom("bias divided", "y is right, but the bias's gradient is n times too small: it was added as n-ths before the "
                                "sum. Add it whole, after g.", divided("bias")),
        Symptom("bias's gradient summed", "The bias's gradient is n times too large: dy is whole, so each rank's db is "
                                          "complete; nothing is to be summed.", times_n("bias")),
        Symptom("not summed", "y is this rank's part of the sum only: g is missing.", _other("y", summed=False)),
        Symptom("f for g", "y is this rank's part of the sum, and the gradients are summed instead: that is f. Here g "
                           "stands behind.", as_(lambda look, r: {**flat(_layer(look.case, r, summed=False)),
                                                           **_times(look, r, "dx", "weight")}, "y", "dx", "weight")),
        Symptom("summed both ways", "y is right, but dx and dW are n times too large: the sum's backward is the identity, "
                                    "not another sum. Use your g.", times_n("dx", "weight")),
        Symptom("mean", "y is n times too small: the products are terms of a sum.",
                _other("y", n_power="y_times", power=-1)),
        Symptom("every n-th column", "Rank r has every n-th column of the weight, but its inputs are one piece: columns "
                                     "r·I/n to (r+1)·I/n.", _other("y", "dx", every_nth=True)),
        Symptom("first columns", "Every rank has the columns of rank 0: its place is its rank in the group.",
                _other("y", "dx", columns_of=0)),
        raised("shape", _SHAPES, "shapes"),
        raised("size", _SHAPES, "shapes"),
        Symptom("wrong y", "y is wrong: the sum over ranks of x_p W_pᵀ, plus the bias once.", first_wrong_part("y")),
        Symptom("wrong dx", "y is right, dx is not: dy W_p, without any sum.", first_wrong_part("dx")),
        Symptom("wrong gradients", "y and dx are right, a parameter's gradient is not: autograd computes dW_p and db if y "
                                   "is made from the parameters.", first_wrong_part("weight", "bias")),
    ),
    ),
)
