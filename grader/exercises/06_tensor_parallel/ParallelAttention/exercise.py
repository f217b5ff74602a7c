"""ParallelAttention: the heads of causal attention split over the ranks, shared key and value heads included."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from grader.exercises.shared.cases import group_case, ranks, total
from grader.exercises.shared.split_inputs import first_wrong_slip, numbers, or_refused, whole_linear
from grader.exercises.technique.splitting import TOLERANCE
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise

from .one_process import K, attend, cut, whole_parameters
from .technique import KV

B, T = 2, 3


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, heads: int, kv: int, dtype: str = "float64", bias: bool = True) -> list[dict[str, Any]]:
        dim = 5

        def linear(n_in: int, n_out: int) -> dict[str, Any]:
            return whole_linear(draw, n_out, n_in, bias, dtype, divisor=75)

        everywhere = {"q": linear(dim, heads * K), "k": linear(dim, kv * K), "v": linear(dim, kv * K),
                      "out": linear(heads * K, dim), "n_heads": heads, "n_kv_heads": kv,
                      "x": numbers(draw, B, T, dim, dtype=dtype, divisor=75),
                      "weights": numbers(draw, B, T, dim, dtype=dtype, divisor=75),
                      "refused": [heads, n] if heads % n else None}
        return [everywhere] * n

    sizes = [(1, 2, 1, "float64", True), (2, 4, 4, "float64", False), (2, 8, 4, "float64", True), (4, 4, 2, "float64", True),
             (3, 6, 1, "float32", True)]
    if grading:
        sizes += [(2, 4, 2, "bfloat16", True), (4, 8, 8, "float64", True), (4, 12, 2, "float64", False)]
    cases = [Case(f"{ranks(n)}, {heads} heads, {kv} of them for k and v, {dtype}{'' if bias else ', no bias'}",
                  tuple(inputs(n, heads, kv, dtype, bias))) for n, heads, kv, dtype, bias in sizes]
    groups = group_case(lambda n: inputs(n, 6, 3 if n == 3 else 2), "6 heads")
    return [*cases, groups, Case("2 ranks, 3 heads: refused", tuple(inputs(2, 3, 1)))]


def _attention(case: Case, rank: int, **how: Any) -> dict[str, Any]:
    """One process, rounded to the case's dtype."""
    dtype = case.inputs[rank]["x"].dtype
    y, dx, gradients = attend(case.inputs[rank], **how)
    return {"y": y.to(dtype), "dx": dx.to(dtype),
            "gradients": {name: None if one is None else one.to(dtype) for name, one in gradients.items()}}


def _right(case: Case, rank: int) -> dict[str, Any]:
    plain = _attention(case, rank)
    return {"parameters": cut(case, rank, whole_parameters(case.inputs[rank])), **plain,
            "gradients": cut(case, rank, plain["gradients"])}


def _own_heads(case: Case, rank: int) -> dict[str, Any]:
    """With this rank's query heads alone."""
    each = case.inputs[rank]["n_heads"] // case.group_size(rank)
    r = case.group_rank(rank)
    return _attention(case, rank, heads=range(r * each, (r + 1) * each))


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
    return cut(case, rank, whole_parameters(inputs), own) | dict.fromkeys(KV, ANYTHING)


def _own_share(case: Case, rank: int) -> dict[str, Tensor | None]:
    """Of the gradients of this rank's key and value heads, what its own query heads contribute."""
    return {name: one for name, one in cut(case, rank, _own_heads(case, rank)["gradients"]).items() if name in KV}


def _kv_not_summed(case: Case, rank: int, right: dict[str, Any]) -> dict[str, Any]:
    return right | _own_share(case, rank)


def _kv_summed_over_all(case: Case, rank: int, right: dict[str, Any]) -> dict[str, Any]:
    shares = [_own_share(case, member) for member in case.members(rank)]
    return right | {name: None if one is None else total([share[name] for share in shares])
                    for name, one in shares[0].items()}


EXERCISE = Exercise(
    title="Attention, split by heads",
    parameters=("q", "k", "v", "out", "n_heads", "n_kv_heads", "group"),
    make_cases=_cases,
    oracle=or_refused(_right),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
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
        first_wrong_slip("f missing", "y is right; dx holds the own heads only, because x goes to every rank's heads: it "
                                      "needs f.", "dx", lambda case, r, right: _own_heads(case, r)["dx"]),
        first_wrong_slip("kv not summed", "y, dx and the rest are right. Where several ranks hold the same key and value "
                                          "head, its gradient is the sum over these ranks; each has its own query heads' "
                                          "share.", "gradients", _kv_not_summed),
        first_wrong_slip("kv summed for nothing", "The gradients of k and v are mixed although every rank has heads of its "
                                                  "own: sum them only over ranks that hold the same head.",
                         "gradients", _kv_summed_over_all),
    ),
)
