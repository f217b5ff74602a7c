"""Pipelines of small layers, one stage a rank, and what one plain process computes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calling.pipelining import WatchedStage, mean_loss
from grader.exercises.shared.cases import group_case, ranks
from grader.judging.exercise import Case, Draw, Look, Symptom
from grader.judging.symptoms import wrong_ranks

Applied = Callable[[int, int], int]


def pipeline_inputs(draw: Draw, n: int, n_micro: int, rows: int, dtype: str = "float64") -> list[dict[str, Any]]:
    """Inputs of n stages of one or two layers, of odd widths: x for the first, y for the last, `like` for what comes in."""
    widths = [draw.integer(3, 6) for _ in range(n + 1)]
    inputs = [{"layers": _layers(draw, widths[r:r + 2], 1 + (r == 1), dtype), "x": None, "y": None, "n_micro": n_micro,
               "like": torch.zeros(rows, widths[r], dtype=getattr(torch, dtype))} for r in range(n)]
    inputs[0]["x"], inputs[-1]["y"] = (_numbers(draw, n_micro * rows, width, dtype) for width in (widths[0], widths[-1]))
    return inputs


def pipeline_cases(draw: Draw, grading: bool, sizes: Sequence[tuple[int, int, int, str]],
                   drop: Sequence[str] = ()) -> Sequence[Case]:
    """A case for each (ranks, micro-batches, rows of one, dtype), and one in two groups; inputs without those in `drop`."""
    def inputs(*args) -> list[dict[str, Any]]:
        return [{name: value for name, value in one.items() if name not in drop} for one in pipeline_inputs(draw, *args)]

    cases = [Case(f"{ranks(n)}, {m} micro-batch{'es' * (m > 1)} of {rows}{'' if dtype == 'float64' else ', ' + dtype}",
                  tuple(inputs(n, m, rows, dtype))) for n, m, rows, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, 4, 2))]


def plain_step(case: Case, rank: int) -> dict[str, Any]:
    """The mean loss of the whole batch through all stages, and the gradients of `rank`'s stage."""
    stages = _stages(case, rank)
    first, last = case.members(rank)[0], case.members(rank)[-1]
    output = case.inputs[first]["x"]
    for stage in stages:
        output = stage(output)
    loss = mean_loss(output, case.inputs[last]["y"])
    loss.backward()
    return _result(case, rank, stages, loss.detach())


def staged_step(case: Case, rank: int, applied: Applied = lambda place, k: k, last_only: bool = False,
                local: bool = False) -> dict[str, Any]:
    """The same, micro-batch by micro-batch and stage by stage, with a mistake.

    applied(place, k): to which micro-batch the stage at `place` applies the k-th gradient that comes; last_only: earlier
    micro-batches are forgotten; local: each stage but the last uses the sum of its own output as its loss.
    """
    stages, m = _stages(case, rank), case.inputs[rank]["n_micro"]
    first, last = case.members(rank)[0], case.members(rank)[-1]
    xs, ys = case.inputs[first]["x"].chunk(m), case.inputs[last]["y"].chunk(m)
    kept, losses = [], []
    for stage in stages:
        inputs = [x.detach().requires_grad_() for x in xs]
        xs = [stage(x) for x in inputs]
        kept.append((inputs, xs))
    for output, y in zip(kept[-1][1], ys, strict=True):
        losses.append(mean_loss(output, y))
    coming: list[Tensor | None] = [None] * m
    for place in reversed(range(len(stages))):
        inputs, outputs = kept[place]
        for k in range(m):
            micro = applied(place, k)
            if last_only and k == m - 1:
                stages[place].zero_grad()
            if place == len(stages) - 1:
                (losses[micro] / m).backward()
            else:
                outputs[micro].backward(torch.ones_like(outputs[micro]) if local else coming[k])
            coming[k] = inputs[micro].grad
    return _result(case, rank, stages, torch.stack(losses).mean().detach())


def scaled_step(case: Case, rank: int, factor: float) -> dict[str, Any]:
    """The plain process's, its gradients times `factor`."""
    found = plain_step(case, rank)
    return found | {"gradients": [one * factor for one in found["gradients"]]}


def whole_output(case: Case, rank: int) -> Tensor | None:
    """The last stage's output for the whole batch; None for any other rank."""
    output = case.inputs[case.members(rank)[0]]["x"]
    with torch.no_grad():
        for stage in _stages(case, rank):
            output = stage(output)
    return output if rank == case.members(rank)[-1] else None


def sent_bytes(look: Look, rank: int, back: bool) -> int:
    """What a stage sends: its outputs to the next one and, if `back`, the gradients of its inputs to the one before."""
    inputs, place = look.case.inputs, look.case.group_rank(rank)
    members, m = look.case.members(rank), look.case.inputs[rank]["n_micro"]
    forward = m * inputs[members[place + 1]]["like"].nbytes if place + 1 < len(members) else 0
    return forward + (m * inputs[rank]["like"].nbytes if back and place else 0)


def error_missing(hint: str) -> Symptom:
    """A result where ValueError should have been raised. For the adapter call_splitting."""
    return Symptom("no error", hint, wrong_ranks(
        lambda look, r, found, expected: "parts" in found and "parts" not in expected))


def error_without_sizes(hint: str) -> Symptom:
    """ValueError was raised, as it should have been, but does not name the sizes."""
    return Symptom("sizes not named", hint, wrong_ranks(
        lambda look, r, found, expected: "parts" not in found and "parts" not in expected))


def _layers(draw: Draw, ends: Sequence[int], count: int, dtype: str) -> list[list[Tensor]]:
    widths = [ends[0]] + [ends[0] + 1] * (count - 1) + [ends[1]]
    return [[_numbers(draw, widths[k + 1], widths[k], dtype), _numbers(draw, 1, widths[k + 1], dtype)[0]]
            for k in range(count)]


def _numbers(draw: Draw, rows: int, width: int, dtype: str) -> Tensor:
    return (draw.tensor(rows, width, dtype=torch.float64) / 50).to(getattr(torch, dtype))


def _stages(case: Case, rank: int) -> list[WatchedStage]:
    return [WatchedStage(layers) for layers in case.peers_inputs(rank, "layers")]


def _result(case: Case, rank: int, stages: Sequence[WatchedStage], loss: Tensor) -> dict[str, Any]:
    gradients = [parameter.grad for parameter in stages[case.group_rank(rank)].parameters()]
    return {"gradients": gradients} | ({} if case.inputs[rank]["y"] is None else {"loss": loss})
