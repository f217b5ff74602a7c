"""ParallelAttention: the heads of causal attention split over the ranks, shared key and value heads included."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.exercises.shared.cases import group_case, ranks, total
from grader.exercises.shared.split_inputs import first_wrong_slip, in_dtype_of, in_float64, numbers, or_refused, whole_linear
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .technique import KV

B, T, K = 2, 3, 2  # K: size of a head
Parameters = dict[str, Tensor | None]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    dim = 5

    def inputs(n: int, heads: int, kv: int, dtype: str = "float64", bias: bool = True) -> tuple[dict[str, Any], ...]:
        unfit = [heads, n] if heads % n else [kv, n] if kv % n and n % kv else None

        def linear(n_in: int, n_out: int) -> dict[str, Any]:
            return whole_linear(draw, n_out, n_in, bias, dtype, divisor=75)

        everywhere = {"q": linear(dim, heads * K), "k": linear(dim, kv * K), "v": linear(dim, kv * K),
                      "out": linear(heads * K, dim), "n_heads": heads, "n_kv_heads": kv,
                      "x": numbers(draw, B, T, dim, dtype=dtype, divisor=75),
                      "weights": numbers(draw, B, T, dim, dtype=dtype, divisor=75),
                      "refused": unfit}
        return (everywhere,) * n

    sizes = [(1, 2, 1, "float64", True), (2, 4, 4, "float64", False), (2, 8, 4, "float64", True), (4, 4, 2, "float64", True),
             (3, 6, 1, "float32", True)]
    if grading:
        sizes += [(2, 4, 2, "bfloat16", True), (4, 8, 8, "float64", True), (4, 12, 2, "float64", False)]
    cases = [Case(f"{ranks(n)}, {heads} heads, {kv} of them for k and v, {dtype}{'' if bias else ', no bias'}",
                  inputs(n, heads, kv, dtype, bias)) for n, heads, kv, dtype, bias in sizes]
    groups = group_case(lambda n: inputs(n, 6, 1 if n == 3 else 2), "6 heads, 1 and 2 of them for k and v")
    return [*cases, groups, Case("2 ranks, 3 heads: refused", inputs(2, 3, 1)),
            Case("2 ranks, 6 heads, 3 of them for k and v: refused", inputs(2, 6, 3))]


# ── one process ──


def _whole_parameters(inputs: dict[str, Any]) -> Parameters:
    """Name → the whole weight or bias."""
    return {f"{name}.{part}": inputs[name][part] for name in ("q", "k", "v", "out") for part in ("weight", "bias")}


def _in_blocks(head: int, heads: int, kv: int) -> int:
    """The key and value head of a query head: neighbours share one."""
    return head // (heads // kv)


def _join(z_BHTK: Tensor) -> Tensor:
    return z_BHTK.transpose(1, 2).flatten(2)


def _attention(case: Case, rank: int, heads: Sequence[int] | None = None, causal: bool = True,
               mapped: Callable[[int, int, int], int] = _in_blocks, scale: float = 1 / math.sqrt(K),
               join: Callable[[Tensor], Tensor] = _join) -> dict[str, Any]:
    """y, dx and the gradients of whole parameters, computed in float64.

    heads: these query heads alone count; mapped(head, heads, kv heads): the key and value head of a query head; scale: of
    the scores; join: from the heads' results (B, H, T, K) to (B, T, H·K).
    """
    inputs = in_float64(case.inputs[rank])
    leaves = {name: None if whole is None else whole.requires_grad_() for name, whole in _whole_parameters(inputs).items()}
    x = inputs["x"].requires_grad_()
    z = join(_heads(inputs, leaves, x, mapped, causal, scale))
    if heads is not None:
        z = z * torch.isin(torch.arange(z.shape[-1]) // K, torch.tensor(list(heads)))
    y = F.linear(z, leaves["out.weight"], leaves["out.bias"])
    (y * inputs["weights"]).sum().backward()
    gradients = {name: None if leaf is None else leaf.grad for name, leaf in leaves.items()}
    return in_dtype_of({"y": y.detach(), "dx": x.grad, "gradients": gradients}, case.inputs[rank]["x"])


def _heads(inputs: dict[str, Any], whole: Parameters, x: Tensor, mapped: Callable[[int, int, int], int], causal: bool,
           scale: float) -> Tensor:
    """All heads' results: (B, H, T, K)."""
    heads, kv, length = inputs["n_heads"], inputs["n_kv_heads"], x.shape[1]
    q, k, v = (F.linear(x, whole[f"{name}.weight"], whole[f"{name}.bias"]).unflatten(-1, (count, -1)).transpose(1, 2)
               for name, count in (("q", heads), ("k", kv), ("v", kv)))
    pairs = [mapped(h, heads, kv) for h in range(heads)]
    scores = q @ k[:, pairs].transpose(-1, -2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
    return scores.softmax(-1) @ v[:, pairs]


def _query_heads(case: Case, rank: int) -> range:
    """Those that lie on `rank`."""
    each, r = case.inputs[rank]["n_heads"] // case.group_size(rank), case.group_rank(rank)
    return range(r * each, (r + 1) * each)


def _cut(case: Case, rank: int, whole: Parameters, own: Sequence[int] | None = None) -> Parameters:
    """The part of each whole tensor that lies on `rank`. own: its query heads, if others."""
    inputs = case.inputs[rank]
    own = _query_heads(case, rank) if own is None else own
    own_kv = sorted({_in_blocks(head, inputs["n_heads"], inputs["n_kv_heads"]) for head in own})
    rows, kv_rows = _rows(own), _rows(own_kv)
    parts = {name: None if tensor is None else tensor[kv_rows if name in KV else rows].clone()
             for name, tensor in whole.items() if not name.startswith("out.")}
    return parts | {"out.weight": whole["out.weight"][:, rows].clone(), "out.bias": whole["out.bias"]}


def _rows(heads: Sequence[int]) -> list[int]:
    return [head * K + k for head in heads for k in range(K)]


def _right(case: Case, rank: int) -> dict[str, Any]:
    plain = _attention(case, rank)
    return {"parameters": _cut(case, rank, _whole_parameters(case.inputs[rank])), **plain,
            "gradients": _cut(case, rank, plain["gradients"])}


# ── mistakes ──


def _own_heads(case: Case, rank: int) -> dict[str, Any]:
    """With this rank's query heads alone."""
    return _attention(case, rank, heads=_query_heads(case, rank))


def _bias_n_times(case: Case, rank: int, right: Tensor) -> Tensor:
    bias = case.inputs[rank]["out"]["bias"]
    return right if bias is None else right + (case.group_size(rank) - 1) * bias


def _in_turn(n: int) -> Callable[[int, int, int], int]:
    """The heads of one rank take its key and value heads in turn."""

    def mapped(head: int, heads: int, kv: int) -> int:
        each, kv_each = heads // n, max(1, kv // n)
        return head // each * kv // n + head % each % kv_each

    return mapped


def _not_neighbours(case: Case, rank: int, right: dict[str, Any]) -> dict[str, Any]:
    """This rank has query heads r, r + n, …, and some heads of k and v."""
    inputs = case.inputs[rank]
    own = range(case.group_rank(rank), inputs["n_heads"], case.group_size(rank))
    return _cut(case, rank, _whole_parameters(inputs), own) | dict.fromkeys(KV, ANYTHING)


def _kv_whole(case: Case, rank: int, right: Parameters) -> Parameters:
    """Every rank has all heads of k and v."""
    return right | {name: tensor for name, tensor in _whole_parameters(case.inputs[rank]).items() if name in KV}


def _not_joined(case: Case, rank: int, right: Tensor) -> Tensor:
    """Each rank reads its heads' (B, H, T, K) as (B, T, H·K)."""
    n = case.group_size(rank)
    return _attention(case, rank, join=lambda z: torch.cat(
        [own.reshape(*own.shape[:1], T, -1) for own in z.chunk(n, 1)], -1))["y"]


def _scaled(id: str, scale: Callable[[Case, int], float]) -> Slip:
    """Scores times something else than 1/√K."""
    return first_wrong_slip(id, "The scores are divided by √K and by nothing else: K is the size of one head, the rows of q "
                                "divided by n_heads.", "y",
                            lambda case, r, right: _attention(case, r, scale=scale(case, r))["y"])


def _sharers(case: Case, rank: int) -> float:
    """How many ranks have this rank's heads of k and v."""
    return max(1.0, case.group_size(rank) / case.inputs[rank]["n_kv_heads"])


def _kv_of(*names: str) -> Callable[[Case, int, dict[str, Any]], dict[str, Any]]:
    """Of these parameters what the own query heads contribute, the others summed."""
    return lambda case, rank, right: right | {name: own for name, own in _own_share(case, rank).items() if name in names}


def _own_share(case: Case, rank: int) -> dict[str, Tensor | None]:
    """Of the gradients of this rank's key and value heads, what its own query heads contribute."""
    gradients = _cut(case, rank, _own_heads(case, rank)["gradients"])
    return {name: gradients[name] for name in KV}


def _kv_summed_over_all(case: Case, rank: int, right: dict[str, Any]) -> dict[str, Any]:
    shares = [_own_share(case, member) for member in case.members(rank)]
    return right | {name: None if own is None else total([share[name] for share in shares])
                    for name, own in shares[0].items()}


EXERCISE = Exercise(
    title="Attention, split by heads",
    parameters=("q", "k", "v", "out", "n_heads", "n_kv_heads", "group"),
    make_cases=_cases,
    oracle=or_refused(_right),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        first_wrong_slip("all heads of k and v", "A rank keeps all heads of k and v: it needs those of its own query heads "
                                                 "only, be they one that others have as well.", "parameters", _kv_whole),
        first_wrong_slip("heads in turn", "A rank's heads must be neighbours, r·H/n to (r+1)·H/n: then its rows of q and "
                                          "its columns of out are one piece, and its query heads share key and value heads.",
                         "parameters", _not_neighbours),
        first_wrong_slip("y not summed", "y holds the own heads only: out is a row-parallel layer, whose results are summed "
                                         "(g).", "y", lambda case, r, right: _own_heads(case, r)["y"]),
        first_wrong_slip("bias n times", "out's bias is counted once a rank: add it after the all-reduce.",
                         "y", _bias_n_times),
        first_wrong_slip("not causal", "Each position sees later ones: attention here is causal.",
                         "y", lambda case, r, right: _attention(case, r, causal=False)["y"]),
        first_wrong_slip("kv heads in turn", "With several key and value heads on a rank, neighbouring query heads share "
                                             "one: repeat_interleave (or enable_gqa=True), not repeat.",
                         "y", lambda case, r, right: _attention(case, r, mapped=_in_turn(case.group_size(r)))["y"]),
        first_wrong_slip("heads not put back", "The heads' results (B, H/n, T, K) were read as (B, T, …) without bringing T "
                                               "in front of the heads: transpose back before you join them.",
                         "y", _not_joined),
        *(_scaled("other scale", scale) for scale in (
            lambda case, r: 1.0, lambda case, r: 1 / K, lambda case, r: case.inputs[r]["x"].shape[-1] ** -0.5,
            lambda case, r: (case.inputs[r]["n_heads"] * K) ** -0.5,
            lambda case, r: (case.inputs[r]["n_heads"] * K / case.group_size(r)) ** -0.5)),
        first_wrong_slip("f missing", "y is right; dx holds the own heads only, because x goes to every rank's heads: it "
                                      "needs f.", "dx", lambda case, r, right: _own_heads(case, r)["dx"]),
        first_wrong_slip("kv not summed", "y, dx and the rest are right. Where several ranks hold the same key and value "
                                          "head, its gradient is the sum over these ranks; each has its own query heads' "
                                          "share.",
                         "gradients", lambda case, r, right: right | _own_share(case, r)),
        first_wrong_slip("kv weights summed only", "The gradients of shared weights are summed, those of their biases are "
                                                   "not: they are shared as well.",
                         "gradients", _kv_of("k.bias", "v.bias")),
        first_wrong_slip("one of k and v summed", "k's gradient is summed and v's is not: both are shared.",
                         "gradients", _kv_of("v.weight", "v.bias")),
        first_wrong_slip("one of k and v summed", "v's gradient is summed and k's is not: both are shared.",
                         "gradients", _kv_of("k.weight", "k.bias")),
        first_wrong_slip("shared gradient averaged", "The gradient of a shared head is divided by the number of its "
                                                     "holders: each has other query heads, so it is their sum.",
                         "gradients", lambda case, r, right: right | {
                             name: None if right[name] is None else right[name] / _sharers(case, r) for name in KV}),
        first_wrong_slip("kv summed for nothing", "The gradients of different heads of k and v are added up: sum one only "
                                                  "over ranks that hold the same head.",
                         "gradients", _kv_summed_over_all),
    ),
)
