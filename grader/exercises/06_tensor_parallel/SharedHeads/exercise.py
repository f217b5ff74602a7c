"""SharedHeads: one head of k or v on each rank, where there are fewer heads than ranks; holders sum its gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED
from grader.exercises.shared.cases import group_case, ranks, total
from grader.exercises.shared.split_inputs import (
    divides,
    first_wrong_slip,
    in_dtype_of,
    in_float64,
    numbers,
    or_refused,
    whole_linear,
)
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .call import LEFT

K, DIM = 2, 12  # size of a head, of x
ROWS = (2, 3)
Gradients = dict[str, Tensor | None]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, kv: int, dtype: str = "float64", bias: bool = True) -> tuple[dict[str, Any], ...]:
        everywhere = {"linear": whole_linear(draw, kv * K, DIM, bias, dtype), "n_kv_heads": kv,
                      "x": numbers(draw, *ROWS, DIM, dtype=dtype), "refused": [kv, n] if n % kv else None}
        return tuple(everywhere | {"dy": numbers(draw, *ROWS, K, dtype=dtype)} for _ in range(n))

    sizes = [(1, 1, "float64", True), (2, 2, "float64", True), (3, 1, "float32", True), (4, 2, "float64", True),
             (4, 1, "float64", False)]
    if grading:
        sizes += [(2, 1, "bfloat16", True), (6, 2, "float64", False), (6, 3, "float64", True)]
    cases = [Case(f"{ranks(n)}, heads: {kv}, {dtype}{'' if bias else ', no bias'}", inputs(n, kv, dtype, bias))
             for n, kv, dtype, bias in sizes]
    if grading:
        cuts = {name: Cut(("linear", name), 0, 2) for name in ("weight", "bias")}
        cases.append(Case("4 ranks, heads: 2, sealed", tuple(own | {SEALED: cuts} for own in inputs(4, 2))))
    groups = group_case(lambda n: inputs(n, 1 if n == 3 else 2), "1 and 2 heads")
    return [*cases, groups, Case("3 ranks, heads: 2, refused", inputs(3, 2))]


def _own_head(case: Case, rank: int) -> int:
    return case.group_rank(rank) * case.inputs[rank]["n_kv_heads"] // case.group_size(rank)


def _sharers(case: Case, rank: int) -> float:
    """How many ranks hold this rank's head."""
    return case.group_size(rank) / case.inputs[rank]["n_kv_heads"]


def _rows(case: Case, rank: int, head: int) -> Gradients:
    """One head's part of the whole layer."""
    return {name: None if tensor is None else tensor[head * K:(head + 1) * K]
            for name, tensor in case.inputs[rank]["linear"].items()}


def _pass(case: Case, rank: int) -> dict[str, Any]:
    """y, dx, and the gradients of this rank's head as its own dy makes them, computed in float64."""
    own, x, dy = (in_float64(value) for value in (_rows(case, rank, _own_head(case, rank)), *(
        case.inputs[rank][name] for name in ("x", "dy"))))
    gradients = {"weight": dy.flatten(0, 1).T @ x.flatten(0, 1), "bias": None if own["bias"] is None else dy.sum((0, 1))}
    return {"y": F.linear(x, own["weight"], own["bias"]), "dx": dy @ own["weight"], "gradients": gradients}


def _summed(case: Case, rank: int, members: Sequence[int]) -> Gradients:
    """The gradients of these ranks' passes, added up."""
    passes = [_pass(case, member)["gradients"] for member in members]
    return {name: None if own is None else total([one[name] for one in passes]) for name, own in passes[0].items()}


def _holders(case: Case, rank: int) -> list[int]:
    return [member for member in case.members(rank) if _own_head(case, member) == _own_head(case, rank)]


def _right(case: Case, rank: int) -> dict[str, Any]:
    found = _pass(case, rank) | {"gradients": _summed(case, rank, _holders(case, rank))}
    return {"parameters": _rows(case, rank, _own_head(case, rank))} | in_dtype_of(found, case.inputs[rank]["x"])


# ── mistakes ──


def _gradients(id: str, hint: str, wrong: Callable[[Case, int, Gradients], Gradients],
               shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """All is right but the gradients."""
    return first_wrong_slip(id, hint, "gradients", lambda case, rank, right: in_dtype_of(
        wrong(case, rank, right), case.inputs[rank]["x"]), shows)


def _each(change: Callable[[Case, int, Tensor], Tensor]) -> Callable[[Case, int, Gradients], Gradients]:
    return lambda case, rank, right: {name: None if one is None else change(case, rank, one) for name, one in right.items()}


def _own(case: Case, rank: int, right: Gradients) -> Gradients:
    return _pass(case, rank)["gradients"]


EXERCISE = Exercise(
    title="Heads that several ranks hold",
    parameters=("linear", "n_kv_heads", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    slips=(
        first_wrong_slip("wrong head", "A rank holds another head than its query heads use. Query head h uses head "
                                       "h // (H/H_kv), so neighbouring ranks share a head: rank r has head r·H_kv // n.",
                         "parameters", lambda case, rank, right: _rows(
                             case, rank, case.group_rank(rank) % case.inputs[rank]["n_kv_heads"])),
        first_wrong_slip("all heads", "A rank keeps all heads of the layer: it needs only the one that its query heads use.",
                         "parameters", lambda case, rank, right: case.inputs[rank]["linear"]),
        first_wrong_slip("bias forgotten", "The bias is missing: y = x·Wᵀ + b.", "y", lambda case, rank, right: in_dtype_of(
            F.linear(*(in_float64(value) for value in (
                case.inputs[rank]["x"], _rows(case, rank, _own_head(case, rank))["weight"]))), right)),
        first_wrong_slip("dx summed", "y is right, but dx is summed over ranks here. The f in front of q, k and v does "
                                      "that, so return this rank's own term.",
                         "dx", lambda case, rank, right: in_dtype_of(
                             total([_pass(case, member)["dx"] for member in case.members(rank)]), right)),
        _gradients("not summed", "y and dx are right. The gradient is what this rank's dy makes of it, but ranks that hold "
                                 "the same head must sum it, or their copies drift apart.", _own),
        _gradients("weights summed only", "The gradient of the weight is summed and that of the bias is not: the holders "
                                          "share both.", lambda case, rank, right: right | {
                                              "bias": _own(case, rank, right)["bias"]}),
        _gradients("summed over all ranks", "Gradients of different heads are added up: sum only over the ranks that hold "
                                            "the same head. A slot for every head keeps them apart in one all-reduce.",
                   lambda case, rank, right: _summed(case, rank, case.members(rank))),
        _gradients("averaged", "The gradient is divided by the number of holders: each of them has other query heads, so it "
                               "is their sum.", _each(lambda case, rank, one: one / _sharers(case, rank))),
        _gradients("summed twice", "The gradient is summed over the holders more than once: each rank's term counts once.",
                   _each(lambda case, rank, one: one * _sharers(case, rank))),
        _gradients("summed anew", "The gradient is right in the first backward pass and not in the next: what p.grad had "
                                  "before is summed over the holders again. Sum the gradient that comes (register_hook), "
                                  "not p.grad.",
                   _each(lambda case, rank, one: one + LEFT * (_sharers(case, rank) - 1)),
                   shows=lambda case: divides(case) and case.inputs[0]["x"].dtype == torch.float64),
    ),
)
