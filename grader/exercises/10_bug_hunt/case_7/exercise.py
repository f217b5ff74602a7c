"""A table on the first and on the last stage: one weight, one gradient."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from grader.exercises.shared.hunted import LR, UNTOUCHED, Inputs, Trained, hunted, simulated, total_of, worlds
from grader.judging.exercise import Draw
from utils.models.hunted import TextStage
from utils.models.hunted_plain import Notes, Tensors, plain_pipeline, text_steps


def _inputs(n: int, draw: Draw) -> Inputs:
    """Tokens and targets, each from a seed of its own."""
    ins, outs = (text_steps(seed=draw.seed()) for _ in range(2))
    return [{"steps": [[tokens, targets] for (tokens, _), (_, targets) in zip(ins, outs, strict=True)], "lr": LR}] * n


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_pipeline(inputs[0]["steps"], LR, len(inputs), TextStage)


def _tables(used: Callable[[Tensor, list[Tensor], int], Tensor], average: bool = False) -> Trained:
    """used(own gradient, both, which of them is the own one) → what an end uses for its table."""

    def train(inputs: Inputs) -> list[Notes]:
        p, steps = len(inputs), inputs[0]["steps"]
        stages = [TextStage(rank, p) for rank in range(p)]
        ends = sorted({0, p - 1})

        def losses(step: int) -> tuple[Tensor, list[Tensor | None]]:
            (x,), (y,) = steps[step]
            for stage in stages:
                x = stage(x)
            loss = stages[-1].loss(x, y)
            return loss, [None] * (p - 1) + [loss]

        def combine(gradients: list[Tensors], rank: int) -> Tensors:
            both = [gradients[end]["table"] for end in ends]
            own = {"table": used(gradients[rank]["table"], both, ends.index(rank))} if rank in ends else {}
            return gradients[rank] | own

        return simulated(stages, len(steps), losses, combine, _average if average else lambda models: None)

    return train


def _average(stages: Sequence[nn.Module]) -> None:
    mean = torch.stack([stages[0].table.detach(), stages[-1].table.detach()]).mean(0)
    for end in (stages[0], stages[-1]):
        end.table.copy_(mean)


def _all_summed(inputs: Inputs) -> list[Notes]:
    """As if all the stages' layers were one, too."""
    p, steps = len(inputs), inputs[0]["steps"]
    stages = [TextStage(rank, p) for rank in range(p)]

    def losses(step: int) -> tuple[Tensor, list[Tensor | None]]:
        (x,), (y,) = steps[step]
        for stage in stages:
            x = stage(x)
        loss = stages[-1].loss(x, y)
        return loss, [None] * (p - 1) + [loss]

    def combine(gradients: list[Tensors], rank: int) -> Tensors:
        if rank not in (0, p - 1):
            return gradients[rank]
        renamed = [{name.replace(f".{end}.", "."): g for name, g in gradients[end].items()} for end in (0, p - 1)]
        return {name: total_of(renamed, name.replace(f".{rank}.", ".")) for name in gradients[rank]}

    return simulated(stages, len(steps), losses, combine)


EXERCISE = hunted("Case 7: after the restart", ("steps", "lr"), worlds(_inputs, (1, 2, 3), (4,), groups=False), _plain, {
    UNTOUCHED: ("Each end trains a table of its own, with the gradient of its own use: after one step they are two weights. "
                "In one process both uses add to one gradient.", _tables(lambda own, both, place: own)),
    "mean for sum": ("The two gradients are averaged. They are parts of one loss's gradient, one from each use: add them "
                     "up.", _tables(lambda own, both, place: sum(both) / len(both))),
    "tables averaged": ("The tables are averaged after the step: they agree, but have moved half as far as they should. Add "
                        "up the gradients, before the step.", _tables(lambda own, both, place: own, average=True)),
    "swapped": ("Each end has the other one's gradient only: add it to the own one.",
                _tables(lambda own, both, place: both[len(both) - 1 - place])),
    "everything summed": ("The ends add up the gradients of their layers, too. Those are different weights; only the table "
                          "is one.", _all_summed),
})
