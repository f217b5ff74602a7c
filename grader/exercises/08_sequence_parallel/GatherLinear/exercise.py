"""A linear layer cut by columns on a piece of the sequence: gathered for the product, kept as the piece only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.sequences import BACKWARD, FORWARD
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import calls_within, joined, kept_at_most, own_piece, part
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

PARTS = ("y", "dx", "dweight", "dbias")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, i: int, o: int, dtype: torch.dtype = torch.float64) -> tuple[dict[str, Any], ...]:
        return tuple({"x": draw.tensor(s, b, i, dtype=dtype) / 50, "weight": draw.tensor(o, i, dtype=dtype) / 50,
                      "bias": draw.tensor(o, dtype=dtype) / 50, "weights": draw.tensor(n * s, b, o, dtype=dtype) / 50}
                     for _ in range(n))

    sizes = [(1, 3, 2, 5, 4), (2, draw.integer(2, 5), 3, 7, 2), (3, 2, 2, 24, 3), (4, 8, 2, 24, 5)]
    sizes += [(5, 3, 2, 7, 2), (2, 9, 1, 3, 5)] * grading
    cases = [Case(f"{ranks(n)}, pieces of {s} positions, {b}×{i} → {o}", inputs(n, s, b, i, o)) for n, s, b, i, o in sizes]
    cases.append(Case("2 ranks, float32", inputs(2, 3, 2, 5, 3, torch.float32)))
    cases.append(group_case(lambda n: inputs(n, 3, 2, 5, 2), "pieces of 3 positions"))
    return cases


def _plain(case: Case, rank: int, own_dx: bool = False, own_dw: bool = False, mean: bool = False, bias: int = 1,
           scaled_dw: bool = False) -> dict[str, Any]:
    """The gradient of all ranks' losses together. Wrong ways: dx of this rank's product alone, or the mean; dW from this
    rank's rows alone or divided by n; another bias."""
    n, r = len(case.members(rank)), case.group_rank(rank)
    total, found = 0, {}
    for member in case.members(rank):
        each = case.inputs[member]
        x = joined(case, rank).requires_grad_()
        weight, b = each["weight"].clone().requires_grad_(), each["bias"].clone().requires_grad_()
        y = x @ weight.T + bias * b
        (y * each["weights"]).sum().backward()
        if own_dx and member != rank:
            continue
        total = total + x.grad
        if member == rank:
            found = {"y": y.detach(), "dweight": weight.grad, "dbias": b.grad}
    if own_dw:
        rows = case.inputs[rank]["weights"].chunk(n)[r].flatten(0, 1)
        found["dweight"] = rows.T @ case.inputs[rank]["x"].flatten(0, 1)
    if scaled_dw:
        found["dweight"] = found["dweight"] / n
    return {"y": found["y"], "dx": own_piece(case, rank, total / n if mean else total), "dweight": found["dweight"],
            "dbias": found["dbias"]}


def _part_as(name: str, **other: Any) -> Callable[[Look], bool]:
    """The first wrong part is `name`, and it is that of another way on every wrong rank."""
    matches = wrong_ranks(lambda look, r, found, _: same(found[name], _plain(look.case, r, **other)[name]))
    return lambda look: part(name, PARTS)(look) and matches(look)


def _sent(look: Look, rank: int) -> float:
    n, whole = group_size(look, rank), joined(look.case, rank).nbytes
    return 2 * bytes_sent_per_rank("all_gather", whole, n) + bytes_sent_per_rank("reduce_scatter", whole, n)


def _gathers_in_backward(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        gathers = [[c for c in calls_within(look, rank, phase) if c.op == "all_gather"] for phase in (FORWARD, BACKWARD)]
        if group_size(look, rank) > 1 and not all(gathers):
            return False, f"rank {rank} gathered {len(gathers[0])} times in forward, {len(gathers[1])} in backward"
    return True, ""


EXERCISE = Exercise(
    title="A linear layer that keeps a piece",
    parameters=("x_sBI", "weight_OI", "bias_O", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=1e-6,
    points={"values": 3, "technique": 3},
    technique=Technique(
        demands=(
        only_calls("all_gather", "reduce_scatter", hint=(
            "All-gather x, reduce-scatter its gradient: those two are all the communication. An all-reduce of dx gives "
            "every rank positions that are not its own.")),
        kept_at_most(lambda look, rank: 1.4 * look.case.inputs[rank]["x"].nbytes, "no whole x between forward and backward",
                     "The result is right, but the gathered x is kept from forward to backward: save the piece, and gather "
                     "it again in backward."),
        Demand("gathered once", "one all-gather in forward, one in backward",
               "x is gathered once only, so somebody keeps it whole: gather it again in backward.", _gathers_in_backward),
        bytes_sent(_sent, "3(n−1)/n of x's bytes", "Right, but more was sent than two all-gathers of x and one "
                                                   "reduce-scatter of its gradient."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call, and keep it in ctx for the "
                      "backward pass."),
        unwaited(),
        raised("number of gradients", "backward returns one value for each argument of forward after ctx: dx, dweight, "
                                      "dbias "
               "and None.", "too few gradients"),
        Symptom("bias forgotten", "The bias is missing: y = x Wᵀ + b.", _part_as("y", bias=0)),
        Symptom("bias on every rank", "The bias is in y n times: each rank has its own columns here, and adds its own bias "
                                      "once.", lambda look: look.case.groups is None and _part_as(
                                          "y", bias=look.case.world_size)(look)),
        Symptom("gradient not summed", "dx comes from this rank's columns alone: all ranks' columns have used x, so "
                                       "reduce-scatter dy W.", _part_as("dx", own_dx=True)),
        Symptom("mean for sum", "dx is n times too small: the columns' gradients are summed.", _part_as("dx", mean=True)),
        Symptom("dW of the piece", "dW comes from this rank's positions alone: its columns have met the whole sequence, so "
                                   "gather x again.", _part_as("dweight", own_dw=True)),
        Symptom("dW divided", "dW is n times too small: this rank's columns are its own, and nobody shares their gradient.",
                _part_as("dweight", scaled_dw=True)),
        Symptom("wrong y", "y is wrong: y = x Wᵀ + b with x the whole sequence, as in F.linear.", part("y", PARTS)),
        Symptom("wrong dx", "y is right, dx is not: this rank's piece of the sum over ranks of dy W.", part("dx", PARTS)),
        Symptom("wrong dW", "y and dx are right, dW is not: dyᵀ x with sequence and batch as one dim.",
                part("dweight", PARTS)),
        Symptom("wrong db", "Only db is wrong: dy summed over sequence and batch.", part("dbias", PARTS)),
    ),
    ),
)
