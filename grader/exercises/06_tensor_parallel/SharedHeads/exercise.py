"""SharedHeads: one head of k or v on each rank, where there are fewer heads than ranks; holders sum its gradient."""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED
from grader.exercises.shared.cases import group_case, ranks, total
from grader.exercises.shared.split_inputs import in_dtype_of, in_float64, numbers, or_refused, whole_linear
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise

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


def _own_rows(case: Case, rank: int) -> Gradients:
    """Its part of the whole layer."""
    head = _own_head(case, rank)
    return {name: None if tensor is None else tensor[head * K:(head + 1) * K]
            for name, tensor in case.inputs[rank]["linear"].items()}


def _pass(case: Case, rank: int) -> dict[str, Any]:
    """y, dx, and the gradients of this rank's head as its own dy makes them, computed in float64."""
    own, inputs = in_float64(_own_rows(case, rank)), in_float64(case.inputs[rank])
    x, dy = inputs["x"], inputs["dy"]
    gradients = {"weight": dy.flatten(0, 1).T @ x.flatten(0, 1), "bias": None if own["bias"] is None else dy.sum((0, 1))}
    return {"y": F.linear(x, own["weight"], own["bias"]), "dx": dy @ own["weight"], "gradients": gradients}


def _right(case: Case, rank: int) -> dict[str, Any]:
    own = _pass(case, rank)
    of_holders = [_pass(case, member)["gradients"] for member in case.members(rank)
                  if _own_head(case, member) == _own_head(case, rank)]
    summed = {name: None if gradient is None else total([one[name] for one in of_holders])
              for name, gradient in own["gradients"].items()}
    return {"parameters": _own_rows(case, rank)} | in_dtype_of(own | {"gradients": summed}, case.inputs[rank]["x"])


EXERCISE = Exercise(
    title="Heads that several ranks hold",
    parameters=("linear", "n_kv_heads", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
)
