"""ParallelAttention: the heads of causal attention split over the ranks, each head on one of them."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.sequence_inputs import own_piece
from grader.exercises.shared.split_inputs import in_dtype_of, in_float64, numbers, or_refused, whole_linear
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise

B, T, K = 2, 3, 2  # K: size of a head
INPUTS = ("q", "k", "v")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    dim = 5

    def inputs(n: int, heads: int, kv: int, dtype: str = "float64", bias: bool = True) -> tuple[dict[str, Any], ...]:
        def linear(n_in: int, n_out: int) -> dict[str, Any]:
            return whole_linear(draw, n_out, n_in, bias, dtype, divisor=75)

        everywhere = {"q": linear(dim, heads * K), "k": linear(dim, kv * K), "v": linear(dim, kv * K),
                      "out": linear(heads * K, dim), "n_heads": heads, "n_kv_heads": kv,
                      "x": numbers(draw, B, T, dim, dtype=dtype, divisor=75),
                      "weights": numbers(draw, B, T, dim, dtype=dtype, divisor=75),
                      "refused": [kv, n] if kv % n else None}
        return (everywhere,) * n

    sizes = [(1, 2, 1, "float64", True), (2, 4, 4, "float64", False), (2, 8, 4, "float64", True), (4, 8, 4, "float64", True),
             (3, 6, 3, "float32", True)]
    if grading:
        sizes += [(2, 4, 2, "bfloat16", True), (4, 8, 8, "float64", True), (4, 16, 8, "float64", False)]
    cases = [Case(f"{ranks(n)}, {heads} heads, {kv} of them for k and v, {dtype}{'' if bias else ', no bias'}",
                  inputs(n, heads, kv, dtype, bias)) for n, heads, kv, dtype, bias in sizes]
    if grading:
        cases.append(Case("4 ranks, 8 heads, 4 of them for k and v, sealed",
                          tuple(own | {SEALED: _cuts(4)} for own in inputs(4, 8, 4))))
    groups = group_case(lambda n: inputs(n, 6, n), "6 heads, 3 and 2 of them for k and v")
    return [*cases, groups, Case("2 ranks, 3 heads: refused", inputs(2, 3, 3)),
            Case("2 ranks, 6 heads, 3 of them for k and v: refused", inputs(2, 6, 3))]


def _cuts(n: int) -> dict[str, Cut]:
    rows = {f"{name}.{part}": Cut((name, part), 0, n) for name in INPUTS for part in ("weight", "bias")}
    return rows | {"out.weight": Cut(("out", "weight"), 1, n)}


def _right(case: Case, rank: int) -> dict[str, Any]:
    given, inputs = case.inputs[rank], in_float64(case.inputs[rank])
    whole = {f"{name}.{part}": given[name][part] for name in (*INPUTS, "out") for part in ("weight", "bias")}
    leaves, x = tree_map_only(Tensor, Tensor.requires_grad_, (in_float64(whole), inputs["x"]))
    q, k, v = (F.linear(x, leaves[f"{name}.weight"], leaves[f"{name}.bias"]).unflatten(-1, (-1, K)).transpose(1, 2)
               for name in INPUTS)
    k, v = (one.repeat_interleave(inputs["n_heads"] // inputs["n_kv_heads"], 1) for one in (k, v))
    later = torch.ones(T, T).triu(1).bool()
    z = (q @ k.transpose(-1, -2) / math.sqrt(K)).masked_fill(later, -math.inf).softmax(-1) @ v
    y = F.linear(z.transpose(1, 2).flatten(2), leaves["out.weight"], leaves["out.bias"])
    y.backward(inputs["weights"])
    gradients = {name: None if leaf is None else leaf.grad for name, leaf in leaves.items()}
    found = {"y": y.detach(), "dx": x.grad, "gradients": _parts(case, rank, gradients)}
    return {"parameters": _parts(case, rank, whole)} | in_dtype_of(found, given["x"])


def _parts(case: Case, rank: int, whole: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    """Of each tensor what lies on this rank: columns of out, rows of the others, out's bias whole."""
    return {name: tensor if tensor is None or name == "out.bias" else
            own_piece(case, rank, tensor, 1 if name == "out.weight" else 0) for name, tensor in whole.items()}


EXERCISE = Exercise(
    title="Attention, split by heads",
    parameters=("q", "k", "v", "out", "n_heads", "n_kv_heads", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
)
