"""Gather, compute, free: a linear layer as an autograd function whose weight is in shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.sharding import HELD
from grader.exercises.shared.cases import each_rank, group_case, pieces, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.technique.sharding import calls_of, first_wrong
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, dim: int, layers: int, rows: int = 2) -> list[dict[str, Any]]:
        shards = [pieces(draw.tensor(dim * dim, dtype=torch.float64) / 50, n) for _ in range(layers)]
        return [{"x": draw.tensor(rows, dim, dtype=torch.float64) / 50, "shards": [one[r].clone() for one in shards],
                 "n_out": dim, "weights": draw.tensor(rows, dim, dtype=torch.float64) / 50} for r in range(n)]

    sizes = [(1, 3, 2), (2, draw.integer(1, 3) * 2 + 1, 2), (3, 4, 2), (4, 16, 6)] + [(5, 3, 2)] * grading
    cases = [Case(f"{ranks(n)}, {layers} layers {dim}×{dim}", tuple(inputs(n, dim, layers))) for n, dim, layers in sizes]
    return [*cases, group_case(lambda n: inputs(n, 3, 2), "2 layers 3×3")]


def _plain(case: Case, rank: int, factor: float = 1.0, own: bool = False) -> dict[str, Any]:
    """This rank's y and dx; the shards' gradients: the mean over ranks times `factor`, or of this rank's rows alone."""
    inputs, n = case.inputs[rank], len(case.members(rank))
    dim, found = inputs["n_out"], {}
    total = [torch.zeros(dim * dim, dtype=torch.float64) for _ in inputs["shards"]]
    for member in (rank,) if own else case.members(rank):
        each = case.inputs[member]
        weights = [torch.cat([shards[k] for shards in case.peers_inputs(rank, "shards")])[:dim * dim].requires_grad_()
                   for k in range(len(total))]
        x = each["x"].clone().requires_grad_()
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight.view(dim, dim).T)
        (y * each["weights"]).sum().backward()
        total = [a + weight.grad for a, weight in zip(total, weights, strict=True)]
        if member == rank:
            found = {"y": y.detach(), "dx": x.grad}
    scale = factor / (1 if own else n)
    return {**found, "dshards": [pieces(one * scale, n)[case.group_rank(rank)].clone() for one in total]}


def _whole_bytes(look: Look, rank: int) -> int:
    """All layers' weights, padded."""
    return sum(shard.nbytes for shard in look.case.inputs[rank]["shards"]) * group_size(look, rank)


def _sent(look: Look, rank: int) -> float:
    n, total = group_size(look, rank), _whole_bytes(look, rank)
    return 2 * bytes_sent_per_rank("all_gather", total, n) + bytes_sent_per_rank("reduce_scatter", total, n)


def _freed(look: Look) -> tuple[bool, str]:
    """After the forward pass: the rows' own numbers, and at most two weights."""
    for rank in look.working:
        inputs = look.case.inputs[rank]
        layers, one_weight = len(inputs["shards"]), _whole_bytes(look, rank) // len(inputs["shards"])
        allowed = 4 * layers * inputs["x"].nbytes + 2 * one_weight
        most = max((s.facts["bytes"] for s in look.evidence.trace.spans if s.rank == rank and s.name == HELD), default=0)
        if most > allowed:
            return False, f"rank {rank} held {most:,} B during the forward pass, allowed {allowed:,} B"
    return True, ""


def _gathers_twice(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        found, wanted = len(calls_of(look, rank, "all_gather")), 2 * len(look.case.inputs[rank]["shards"])
        if group_size(look, rank) > 1 and found < wanted:
            return False, f"rank {rank} gathered {found} times, wanted {wanted}"
    return True, ""


def _gradient_as(**other: Any):
    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return isinstance(found, dict) and same(found["dx"], expected["dx"], 1e-6) and same(
            found["dshards"], _plain(look.case, rank, **other)["dshards"], 1e-6)

    return wrong_ranks(test)


def _factor_n(look: Look) -> bool:
    return look.case.groups is None and _gradient_as(factor=float(look.case.world_size))(look)


def _part(name: str):
    """The first part that is wrong on any rank."""

    def matches(look: Look) -> bool:
        return name == first_wrong(look, ("y", "dx", "dshards"))

    return matches


EXERCISE = Exercise(
    title="Gather, compute, free",
    parameters=("x_BI", "shard_C", "n_out", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_calls("all_gather", "reduce_scatter", hint=(
            "All-gather the weight, reduce-scatter its gradient: those two are all the communication.")),
        Demand("weight kept", "no weight stands between forward and backward",
               "The result is right, but each layer's whole weight is kept from the forward pass to the backward pass "
               "(saved in ctx): save x and the shard only, and gather the weight again.", _freed),
        Demand("gathered once", "one all-gather in forward, one in backward",
               "The weight is gathered once only, so somebody keeps it: free it after the forward pass and gather it again "
               "in backward.", _gathers_twice),
        bytes_sent(_sent, "3(n−1)/n of the weights' bytes",
                   "Right, but more was sent than two all-gathers and one reduce-scatter of each weight."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call."),
        unwaited(),
        Symptom("sum for mean", "The shards' gradients are n times too large: each rank has the gradient of its own rows' "
                                "loss, and the step needs the mean. Divide by the number of ranks.", _factor_n),
        Symptom("own gradient", "Each shard's gradient is that of this rank's rows alone: reduce-scatter it.",
                _gradient_as(own=True)),
        raised("shape", "The sizes do not fit: cut the gathered row at n_out·I numbers before viewing it as (n_out, I), and "
               "pad the gradient before the reduce-scatter.", "padding"),
        raised("size", "The sizes do not fit: cut the gathered row at n_out·I numbers before viewing it as (n_out, I), and "
               "pad the gradient before the reduce-scatter.", "padding"),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx, dshard, None, "
               "None.", "too few gradients"),
        Symptom("wrong output", "y is wrong: y = x Wᵀ with W the gathered row as (n_out, I), as in nn.Linear.", _part("y")),
        Symptom("wrong dx", "y is right, dx is not: dx = dy W.", _part("dx")),
        Symptom("wrong dW", "y and dx are right, the shards' gradients are not: dW = dyᵀ x, flattened and padded as the "
                            "weight is.", _part("dshards")),
    ),
    ),
)
