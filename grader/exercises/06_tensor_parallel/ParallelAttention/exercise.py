"""ParallelAttention: the heads of causal attention split over the ranks, shared key and value heads included."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.splitting_gpt import BACKWARD, FORWARD, REFUSED
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.own_parts import (
    all_reduces,
    not_refused,
    only_all_reduce,
    own_numbers,
    own_storage,
    refused,
    wrong_in,
)
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

B, T, K = 2, 3, 2
TOLERANCE = 1e-5  # some sums in float32
KV = ("k.weight", "k.bias", "v.weight", "v.bias")
PARTS = ("parameters", "y", "dx", "gradients")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, heads: int, kv: int, dtype: str = "float64", bias: bool = True) -> list[dict[str, Any]]:
        dim, kind = 5, getattr(torch, dtype)

        def numbers(*shape: int) -> Tensor:
            return draw.tensor(*shape, dtype=torch.float64).div(75).to(kind)

        def linear(n_in: int, n_out: int) -> dict[str, Any]:
            return {"weight": numbers(n_out, n_in), "bias": numbers(n_out) if bias else None}

        one = {"q": linear(dim, heads * K), "k": linear(dim, kv * K), "v": linear(dim, kv * K),
               "out": linear(heads * K, dim), "n_heads": heads, "n_kv_heads": kv, "x": numbers(B, T, dim),
               "weights": numbers(B, T, dim), "sizes": [heads, n]}
        return [one] * n

    sizes = [(1, 2, 1, "float64", True), (2, 4, 4, "float64", False), (2, 8, 4, "float64", True), (4, 4, 2, "float64", True),
             (3, 6, 1, "float32", True)]
    sizes += [(2, 4, 2, "bfloat16", True), (4, 8, 8, "float64", True), (4, 12, 2, "float64", False)] * grading
    cases = [Case(f"{ranks(n)}, {heads} heads, {kv} of them for k and v, {dtype}{'' if bias else ', no bias'}",
                  tuple(inputs(n, heads, kv, dtype, bias))) for n, heads, kv, dtype, bias in sizes]
    groups = group_case(lambda n: inputs(n, 6, 3 if n == 3 else 2), "6 heads")
    return [*cases, groups, Case("2 ranks, 3 heads: refused", tuple(inputs(2, 3, 1)))]


def _divides(case: Case, rank: int) -> bool:
    return case.inputs[rank]["n_heads"] % len(case.members(rank)) == 0


def _attended(inputs: dict[str, Any], whole: dict[str, Tensor | None], x: Tensor, mapped: Callable[[int, int, int], int],
              causal: bool = True, scale_by: int = K) -> Tensor:
    """All heads' results side by side: (B, T, H·K). mapped(head, heads, kv heads): the key and value head of a head."""
    heads, kv = inputs["n_heads"], inputs["n_kv_heads"]
    q, k, v = ((x @ whole[f"{name}.weight"].T + _or_zero(whole[f"{name}.bias"])).unflatten(-1, (count, -1)).transpose(1, 2)
               for name, count in (("q", heads), ("k", kv), ("v", kv)))
    pairs = [mapped(h, heads, kv) for h in range(heads)]
    scores = q @ k[:, pairs].transpose(-1, -2) / math.sqrt(scale_by)
    if causal:
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
    return (scores.softmax(-1) @ v[:, pairs]).transpose(1, 2).flatten(2)


def _or_zero(bias: Tensor | None) -> Tensor | float:
    return 0.0 if bias is None else bias


def _in_blocks(head: int, heads: int, kv: int) -> int:
    return head // (heads // kv)


def _in_turn(n: int) -> Callable[[int, int, int], int]:
    """The heads of one rank take its key and value heads in turn."""
    def mapped(head: int, heads: int, kv: int) -> int:
        each, kv_each = heads // n, max(1, kv // n)
        return head // each * kv // n + head % each % kv_each

    return mapped


def own_rows(case: Case, rank: int, in_turn: bool = False) -> dict[str, Any]:
    """For q, for k and v: the rows of the whole weight that `rank` holds. in_turn: heads r, r + n, …, not neighbours."""
    inputs, n, r = case.inputs[rank], len(case.members(rank)), case.group_rank(rank)
    heads, kv = inputs["n_heads"], inputs["n_kv_heads"]
    each = heads // n
    own = list(range(r, heads, n)) if in_turn else list(range(r * each, (r + 1) * each))
    own_kv = sorted({_in_blocks(head, heads, kv) for head in own})
    if in_turn:
        own_kv = list(range(r, kv, n)) if kv >= n else [r % kv]
    return {"q": _rows(own), "kv": _rows(own_kv)}


def _rows(heads: Sequence[int]) -> list[int]:
    return [head * K + k for head in heads for k in range(K)]


def _cut(case: Case, rank: int, whole: dict[str, Any], **how: Any) -> dict[str, Any]:
    """The part of each whole tensor that lies on `rank`."""
    rows = own_rows(case, rank, **how)
    found = {name: None if one is None else one[rows["kv" if name in KV else "q"]].clone()
             for name, one in whole.items() if not name.startswith("out.")}
    return found | {"out.weight": whole["out.weight"][:, rows["q"]].clone(), "out.bias": whole["out.bias"]}


def _whole(inputs: dict[str, Any]) -> dict[str, Tensor | None]:
    return {f"{name}.{part}": inputs[name][part] for name in ("q", "k", "v", "out") for part in ("weight", "bias")}


def _plain(case: Case, rank: int, only: Sequence[int] | None = None, biases: float = 1.0, mapped=_in_blocks,
           causal: bool = True, scale_by: int = K) -> dict[str, Any]:
    """One process, in float64. only: with these members' heads alone; biases: how many times the output's bias is added."""
    inputs, n = case.inputs[rank], len(case.members(rank))
    if not _divides(case, rank):
        return {REFUSED: inputs["sizes"]}
    dtype, whole = inputs["x"].dtype, _whole(inputs)
    leaves = {name: None if one is None else one.double().clone().requires_grad_() for name, one in whole.items()}
    x = inputs["x"].double().clone().requires_grad_()
    z = _attended(inputs, leaves, x, mapped, causal, scale_by)
    if only is not None:
        of_rank = torch.arange(z.shape[-1]) // (z.shape[-1] // n)
        z = z * torch.isin(of_rank, torch.tensor([case.group_rank(one) for one in only]))
    y = z @ leaves["out.weight"].T + biases * _or_zero(leaves["out.bias"])
    (y * inputs["weights"].double()).sum().backward()
    gradients = {name: None if one is None else one.grad.to(dtype) for name, one in leaves.items()}
    return {"parameters": _cut(case, rank, whole), "y": y.detach().to(dtype), "dx": x.grad.to(dtype),
            "gradients": _cut(case, rank, gradients)}


def _activation_bytes(look: Look, rank: int) -> int:
    return look.case.inputs[rank]["x"].nbytes


def _shared_bytes(look: Look, rank: int) -> int:
    """k's and v's whole gradients where ranks share a head, each padded to all heads; else nothing."""
    inputs = look.case.inputs[rank]
    if group_size(look, rank) <= inputs["n_kv_heads"]:
        return 0
    return sum(one.nbytes for name, one in _whole(inputs).items() if name in KV and one is not None)


def _sent(look: Look, rank: int) -> float:
    total = 0 if refused(look) else 2 * _activation_bytes(look, rank) + _shared_bytes(look, rank)
    return bytes_sent_per_rank("all_reduce", total, group_size(look, rank))


def _own_numbers(look: Look, rank: int) -> int:
    return sum(one.numel() for one in look.right[rank]["parameters"].values() if one is not None)


def _own_bytes(look: Look, rank: int) -> int:
    return _own_numbers(look, rank) * look.case.inputs[rank]["x"].itemsize


def _when(part: str, test: Callable[[Look, int, Any], bool] = lambda look, rank, found: True) -> Callable[[Look], bool]:
    return wrong_in(part, PARTS, test, TOLERANCE)


def _as(part: str, other: Callable[[Look, int], dict[str, Any]]) -> Callable[[Look], bool]:
    """This part is what other keywords for _plain give."""
    return _when(part, lambda look, r, found: same(found, _plain(look.case, r, **other(look, r))[part], TOLERANCE))


def _cut_in_turn(look: Look, rank: int, found: Any) -> bool:
    return same(found, _cut(look.case, rank, _whole(look.case.inputs[rank]), in_turn=True), TOLERANCE)


def _kv_alone(part: str, shared: bool | None = None) -> Callable[[Look], bool]:
    """Only those of k and v are wrong; if asked, in a case where ranks share a head, or where they do not."""

    def test(look: Look, rank: int, found: Any) -> bool:
        wrong = {name for name, one in look.right[rank][part].items() if not same(found[name], one, TOLERANCE)}
        return wrong <= set(KV) and shared in (None, _shared_bytes(look, rank) > 0)

    return _when(part, test)


EXERCISE = Exercise(
    title="Attention, split by heads",
    parameters=("q", "k", "v", "out", "n_heads", "n_kv_heads", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_all_reduce("All-reduce is all that attention needs: one of y in forward, one of dx in backward, and the "
                        "gradients of k and v where ranks share a head. Nothing is gathered."),
        own_numbers(_own_numbers, "The result is right, but a rank holds more than its own heads: q's, k's and v's rows, "
                                  "out's columns, and out's bias."),
        own_storage(_own_bytes, "The result is right, but the parameters are views that keep the whole weights alive: "
                                "clone the own part."),
        all_reduces(FORWARD, lambda look, r: 1, _activation_bytes, "not one all-reduce forward", "one all-reduce of y, "
                                                                                                 "forward",
                    "The result is right, but forward does not take exactly one all-reduce of (B, T, D): only out's result "
                    "is summed."),
        all_reduces(BACKWARD, lambda look, r: 1, _activation_bytes, "not one all-reduce backward", "one all-reduce of dx, "
                                                                                                   "backward",
                    "The result is right, but backward takes more than one all-reduce of dx: q, k and v each have an f of "
                    "their own. Apply f once, and give its result to all three."),
        bytes_sent(_sent, "two all-reduces of (B, T, D), and shared gradients",
                   "The result is right, but more is sent than y, dx and, where ranks share a head, the gradients of k and "
                   "v."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group to every layer and every call."),
        unwaited(),
        raised("has no attribute", "The layers must be called q, k, v and out, each with a weight and a bias (or None).",
               "layer missing"),
        Symptom("wrong kv head", "The rows of q are right, those of k and v are not: query head h belongs to key and value "
                                 "head h // (H / H_kv), so rank r starts at r·H_kv // n.", _kv_alone("parameters")),
        Symptom("heads in turn", "A rank's heads must be neighbours, r·H/n to (r+1)·H/n: then its rows of q and its "
                                 "columns of out are one piece, and its query heads share key and value heads.",
                _when("parameters", _cut_in_turn)),
        Symptom("wrong part", "The parameters are not this rank's part: rows of whole heads of q, k and v, the same "
                              "columns of out, out's bias whole.", _when("parameters")),
        Symptom("y not summed", "y holds the own heads only: out is a row-parallel layer, whose results are summed (g).",
                _as("y", lambda look, r: {"only": [r]})),
        Symptom("bias n times", "out's bias is counted once a rank: add it after the all-reduce.",
                _as("y", lambda look, r: {"biases": float(group_size(look, r))})),
        Symptom("not causal", "Each position sees later ones: attention here is causal.", _as("y",
                lambda look, r: {"causal": False})),
        Symptom("kv heads in turn", "With several key and value heads on a rank, neighbouring query heads share one: "
                                    "repeat_interleave (or enable_gqa=True), not repeat.",
                _as("y", lambda look, r: {"mapped": _in_turn(group_size(look, r))})),
        Symptom("wrong y", "The parts are right, y is not: each rank has H/n query heads of the old size K, scores are "
                           "scaled by √K.", _when("y")),
        Symptom("f missing", "y is right; dx holds the own heads only, because x goes to every rank's heads: it needs f.",
                _as("dx", lambda look, r: {"only": [r]})),
        Symptom("wrong dx", "y is right, dx is not: backward needs one all-reduce of it.", _when("dx")),
        Symptom("kv not summed", "y, dx and the rest are right. Where several ranks hold the same key and value head, its "
                                 "gradient is the sum over these ranks; each has its own query heads' share.",
                _kv_alone("gradients", shared=True)),
        Symptom("kv summed for nothing", "The gradients of k and v are mixed although every rank has heads of its own: sum "
                                         "them only over ranks that hold the same head.",
                _kv_alone("gradients", shared=False)),
        Symptom("wrong gradients", "y and dx are right, a weight's or bias's gradient is not: the own part's, and "
                                   "out.bias's counted once.", _when("gradients")),
        not_refused("Heads that n does not divide must be refused: raise ValueError naming n_heads and the number of ranks "
                    "before anything is cut."),
    ),
    ),
)
