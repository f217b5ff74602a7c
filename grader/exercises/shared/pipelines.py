"""Pipelines of small layers, one stage a rank: cases, one training step by one process."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.pipelining import WatchedStage, mean_loss
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import TECHNIQUE, VALUES, Case, Draw, Exercise

Size = tuple[int, int, int, str]  # (ranks, micro-batches, rows of one, dtype)


def pipeline_cases(sizes: Sequence[Size], for_grading: Callable[[int], Sequence[Size]],
                   without: str = "") -> Callable[[Draw, bool], Sequence[Case]]:
    """A case for each size, and one in two groups; for_grading(a number that is drawn): more sizes.

    without: the name of an input that the exercise does not have.
    """

    def make_cases(draw: Draw, grading: bool) -> Sequence[Case]:
        def inputs(*size) -> list[dict[str, Any]]:
            of_ranks = _inputs(draw, *size)
            return [{name: value for name, value in own.items() if name != without} for own in of_ranks]

        many = draw.integer(5, 7)  # drawn in any case: what follows is drawn from the same numbers
        cases = [Case(f"{ranks(n)}, {m} micro-batch{'es' * (m > 1)} of {rows}{'' if dtype == 'float64' else ', ' + dtype}",
                      tuple(inputs(n, m, rows, dtype)))
                 for n, m, rows, dtype in (*sizes, *(for_grading(many) if grading else ()))]
        return [*cases, group_case(lambda n: inputs(n, 4, 2, "float64"))]

    return make_cases


def _inputs(draw: Draw, n: int, n_micro: int, rows: int, dtype: str) -> list[dict[str, Any]]:
    """Inputs of n stages of one or two layers, of odd widths: x for the first, y for the last, `like` for what comes in."""

    def numbers(*shape: int) -> Tensor:
        return (draw.tensor(*shape, dtype=torch.float64) / 50).to(getattr(torch, dtype))

    def layers(*widths: int) -> list[list[Tensor]]:
        return [[numbers(outputs, inputs), numbers(outputs)] for inputs, outputs in itertools.pairwise(widths)]

    widths = [draw.integer(3, 6) for _ in range(n + 1)]
    stages = [[widths[r], *([widths[r] + 1] if r == 1 else []), widths[r + 1]] for r in range(n)]
    inputs = [{"layers": layers(*stage), "x": None, "y": None, "n_micro": n_micro,
               "like": torch.zeros(rows, stage[0], dtype=getattr(torch, dtype))} for stage in stages]
    inputs[0]["x"] = numbers(n_micro * rows, widths[0])
    if dtype == "float32":  # what the first stage gets may be tokens
        inputs[0]["x"] = (inputs[0]["x"] * 50).round().long()
    inputs[-1]["y"] = numbers(n_micro * rows, widths[-1])
    return inputs


# ── a training step ──


def step_exercise(title: str, make_cases: Callable[[Draw, bool], Sequence[Case]]) -> Exercise:
    return Exercise(
        title=title,
        parameters=("stage", "x_BD", "y_BO", "loss_fn", "n_micro", "like_bD", "group"),
        make_cases=make_cases,
        trains=True,
        oracle=each_rank(_plain_step),
        forbidden=("torch.distributed.pipelining",),
        tolerance=TOLERANCE,
        points={VALUES: 4, TECHNIQUE: 4},
    )


def stages_of(case: Case, rank: int) -> list[WatchedStage]:
    """All stages of `rank`'s group, in order."""
    return [WatchedStage(layers) for layers in case.peers_inputs(rank, "layers")]


def _plain_step(case: Case, rank: int) -> dict[str, Any]:
    """The gradients of `rank`'s stage; on the last stage the mean loss of the whole batch."""
    members, stages = case.members(rank), stages_of(case, rank)
    loss = mean_loss(nn.Sequential(*stages)(case.inputs[members[0]]["x"]), case.inputs[members[-1]]["y"])
    loss.backward()
    gradients = [parameter.grad for parameter in stages[case.group_rank(rank)].parameters()]
    if rank != members[-1]:
        return {"gradients": gradients, "loss": None}
    return {"gradients": gradients, "loss": loss.detach(), "detached": True}
