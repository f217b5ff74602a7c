"""One step of data parallelism: the big batch's own step, of any split of it."""

from typing import Any

import torch

from grader.calling.training import make_optimizer, not_held, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import REPLICAS, batch, model_of
from grader.exercises.shared.training_cases import SEEDS, model_cases
from grader.judging.exercise import Case, Draw, Exercise

from .technique import STEPS

LR = 0.05


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Batches that do not divide, the last case's smaller than the number of ranks; SGD and AdamW in turn.

    Where a layer is unused, it has a gradient from before, and a rank without rows must not make one either. Of the tied
    model, the optimizer holds the matrices only; all its gradients are cleared and averaged nevertheless.
    """

    def inputs(model: str, n: int, seed: int, rows: int | None = None) -> list[dict[str, Any]]:
        rows = rows or 2 * n + draw.integer(1, max(1, n - 1))
        pairs = [batch(draw, model, rows) for _ in range(STEPS)]
        optimizer = "AdamW" if n % 2 else "SGD"
        stale = {"stale": 1.0} if model in ("mlp", "unused") else {}
        return [{**stale, "model": model, "seed": seed, "batch_size": rows, "optimizer": optimizer, "lr": LR,
                 "matrices only": model == "tied",
                 "xs": [x.tensor_split(n)[r] for x, _ in pairs], "ys": [y.tensor_split(n)[r] for _, y in pairs]}
                for r in range(n)]

    few = Case("4 ranks, 2 rows", tuple(inputs("unused", 4, draw.integer(0, SEEDS), rows=2)))
    return [*model_cases(draw, grading, ("mlp", "tied", "unused", "frozen", "gpt"), inputs), few]


def _right(case: Case, rank: int) -> dict[str, Any]:
    """The big batch's own steps; of parameters that the optimizer does not hold, the last gradients."""
    model = model_of(case, rank)
    optimizer, losses = make_optimizer(case.inputs[rank], model.parameters()), []
    for step in range(STEPS):
        x, y = (torch.cat([of_rank[step] for of_rank in case.peers_inputs(rank, name)]) for name in ("xs", "ys"))
        loss = loss_rows(model(x), y).mean()
        model.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": losses, "detached": True, "parameters": parameters(model), "others": not_held(model, optimizer)}


EXERCISE = Exercise(
    title="A step of data parallelism",
    parameters=("model", "loss_fn", "x", "y", "batch_size", "optimizer", "group"),
    make_cases=_cases,
    oracle=each_group(_right),
    trains=True,
    forbidden=REPLICAS,
    tolerance=1e-6,
)
