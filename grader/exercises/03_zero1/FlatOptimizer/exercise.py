"""FlatOptimizer: all parameters in one flat buffer, of which each rank's optimizer holds one shard."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.training import make_optimizer, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_rank, group_case, once_a_group, ranks
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import IN_WORDS, SEEDS, weighed_case, with_batches
from grader.exercises.shared.zero_cases import optimizer_for, with_rests
from grader.judging.exercise import Case, Draw, Exercise

STEPS, LR = 4, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """The ranks divide the number of parameters of none but the first, which names no learning rate, and the MLP in a group
    of two."""

    def inputs(model: str, n: int) -> list[dict[str, Any]]:
        lr = {"lr": LR} if n > 1 else {}
        drawn = with_rests(with_batches(draw, lambda n: 2, STEPS, **lr, **optimizer_for(model, n)))
        return drawn(model, n, draw.integer(0, SEEDS))

    models = [("mlp", 1), ("tied", 2), ("seldom", 3), ("linear", 4), *([("frozen", 5)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {IN_WORDS.get(model, 'one layer')}, {optimizer_for(model, n)['optimizer']}",
                  tuple(inputs(model, n))) for model, n in models]
    weighed = weighed_case(  # of four, for whom all shares of the state have no room
        lambda model, n, seed: inputs(model, n), grading, n=4, optimizer="AdamW", options={"amsgrad": True})
    return [*cases, group_case(lambda n: inputs("mlp", n), "MLP"), *weighed]


@once_a_group
def _train(case: Case, rank: int) -> dict[str, Any]:
    """One process on the mean gradient of all rows, zeros where there is none."""
    inputs, model = case.inputs[rank], model_of(case, rank)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = make_optimizer(inputs, trained)
    for step in range(STEPS):
        of_members = [torch.autograd.grad(loss_rows(model(xs[step]), ys[step]).mean(), trained, materialize_grads=True)
                      for xs, ys in zip(case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
        for p, gradients in zip(trained, zip(*of_members, strict=True), strict=True):
            p.grad = torch.stack(gradients).mean(0)
        optimizer.step()
    return {"parameters": parameters(model)}


EXERCISE = Exercise(
    title="ZeRO-1 for a whole model",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_train),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
