"""ParallelAttention: the heads of causal attention split over the ranks, each head on one of them."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.sealing import Cut
from grader.evidence.case import SEALED
from grader.exercises.shared.cases import group_case, ranks
from grader.exercises.shared.heads import INPUTS, K, Parameters, attention, cut, query_heads, whole_parameters
from grader.exercises.shared.split_inputs import divides, first_wrong_slip, numbers, or_refused, whole_linear
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

B, T = 2, 3
KV = ("k.weight", "k.bias", "v.weight", "v.bias")


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
    plain = attention(case, rank)
    return {"parameters": cut(case, rank, whole_parameters(case.inputs[rank])), "y": plain["y"], "dx": plain["dx"],
            "gradients": cut(case, rank, plain["gradients"])}


# ── mistakes ──


def _own_heads(case: Case, rank: int) -> dict[str, Any]:
    """With this rank's query heads alone."""
    return attention(case, rank, heads=query_heads(case, rank))


def _dx_through(case: Case, rank: int, summed: Sequence[str]) -> Tensor:
    """dx, where what comes back through these of q, k and v is summed over ranks, and of the others this rank's share."""
    whole = attention(case, rank)["dxs"]
    own = attention(case, rank, heads=query_heads(case, rank))["dxs"]
    return sum(whole[name] if name in summed else own[name] for name in INPUTS)


def _some_without_f(*summed: str) -> Slip:
    return first_wrong_slip("f on some of q, k, v", (
        "y is right; in dx only a part is summed over ranks: not all of q, k and v take x from behind f. Put x through f "
        "once, and give the result to all three."), "dx", lambda case, r, right: _dx_through(case, r, summed))


def _times_n(id: str, hint: str, *, gradients_too: bool) -> Slip:
    """dx is n times too large, and with it all gradients but that of out's bias, or none."""

    def wrong(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
        n, gradients = float(case.group_size(rank)), right[rank]["gradients"]
        if gradients_too:
            gradients = {name: tensor if tensor is None or name == "out.bias" else tensor * n
                         for name, tensor in gradients.items()}
        return right[rank] | {"dx": right[rank]["dx"] * n, "gradients": gradients}

    return Slip(id, hint, wrong, shows=divides)


def _bias_n_times(case: Case, rank: int, right: Tensor) -> Tensor:
    bias = case.inputs[rank]["out"]["bias"]
    return right if bias is None else right + (case.group_size(rank) - 1) * bias


def _in_turn(n: int) -> Callable[[int, int, int], int]:
    """The heads of one rank take its key and value heads in turn."""

    def mapped(head: int, heads: int, kv: int) -> int:
        each, kv_each = heads // n, kv // n
        return head // each * kv // n + head % each % kv_each

    return mapped


def _not_neighbours(case: Case, rank: int, right: dict[str, Any]) -> dict[str, Any]:
    """This rank has query heads r, r + n, …, and some heads of k and v."""
    inputs = case.inputs[rank]
    own = range(case.group_rank(rank), inputs["n_heads"], case.group_size(rank))
    return cut(case, rank, whole_parameters(inputs), own) | dict.fromkeys(KV, ANYTHING)


def _kv_whole(case: Case, rank: int, right: Parameters) -> Parameters:
    """Every rank has all heads of k and v."""
    return right | {name: tensor for name, tensor in whole_parameters(case.inputs[rank]).items() if name in KV}


def _not_joined(case: Case, rank: int, right: Tensor) -> Tensor:
    """Each rank reads its heads' (B, H, T, K) as (B, T, H·K)."""
    n = case.group_size(rank)
    return attention(case, rank, join=lambda z: torch.cat(
        [own.reshape(*own.shape[:1], T, -1) for own in z.chunk(n, 1)], -1))["y"]


def _scaled(id: str, scale: Callable[[Case, int], float]) -> Slip:
    """Scores times something else than 1/√K."""
    return first_wrong_slip(id, "The scores are divided by √K and by nothing else: K is the size of one head, the rows of q "
                                "divided by n_heads.", "y",
                            lambda case, r, right: attention(case, r, scale=scale(case, r))["y"])


EXERCISE = Exercise(
    title="Attention, split by heads",
    parameters=("q", "k", "v", "out", "n_heads", "n_kv_heads", "group"),
    forbidden=("torch.distributed.tensor",),
    make_cases=_cases,
    oracle=or_refused(_right),
    trains=True,
    measured=True,
    tolerance=TOLERANCE,
    slips=(
        first_wrong_slip("all heads of k and v", "A rank keeps all heads of k and v: it needs those of its own query heads "
                                                 "only.", "parameters", _kv_whole),
        first_wrong_slip("heads in turn", "A rank's heads must be neighbours, r·H/n to (r+1)·H/n: then its rows of q and "
                                          "its columns of out are one piece, and its query heads share key and value heads.",
                         "parameters", _not_neighbours),
        first_wrong_slip("y not summed", "y holds your heads only: out is a row-parallel layer, whose results are summed "
                                         "(g).", "y", lambda case, r, right: _own_heads(case, r)["y"]),
        first_wrong_slip("bias n times", "out's bias is counted once a rank: add it after the all-reduce.",
                         "y", _bias_n_times),
        first_wrong_slip("not causal", "Each position sees later ones: attention here is causal.",
                         "y", lambda case, r, right: attention(case, r, causal=False)["y"]),
        first_wrong_slip("kv heads in turn", "With several key and value heads on a rank, neighbouring query heads share "
                                             "one: repeat_interleave (or enable_gqa=True), not repeat.",
                         "y", lambda case, r, right: attention(case, r, mapped=_in_turn(case.group_size(r)))["y"]),
        first_wrong_slip("heads not put back", "The heads' results (B, H/n, T, K) were read as (B, T, …) without bringing T "
                                               "in front of the heads: transpose back before you join them.",
                         "y", _not_joined),
        *(_scaled("other scale", scale) for scale in (
            lambda case, r: 1.0, lambda case, r: 1 / K, lambda case, r: case.inputs[r]["x"].shape[-1] ** -0.5,
            lambda case, r: (case.inputs[r]["n_heads"] * K) ** -0.5,
            lambda case, r: (case.inputs[r]["n_heads"] * K / case.group_size(r)) ** -0.5)),
        first_wrong_slip("f missing", "y is right; dx holds your heads only, because x goes to every rank's heads: it "
                                      "needs f.", "dx", lambda case, r, right: _own_heads(case, r)["dx"]),
        *(_some_without_f(*summed) for count in (1, 2) for summed in itertools.combinations(INPUTS, count)),
        _times_n("dx times n", "y and the gradients are right, dx is n times too large: it is summed over ranks twice. One "
                               "f, in front of q, k and v, is enough.", gradients_too=False),
        _times_n("summed both ways", "y is right; dx and all weights' gradients are n times too large: backward sums dy "
                                     "behind out, as torch's differentiable all_reduce does. Use your g, which hands dy on.",
                 gradients_too=True),
    ),
)
