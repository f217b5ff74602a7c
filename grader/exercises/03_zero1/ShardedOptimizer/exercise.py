"""ShardedOptimizer: wraps any optimizer class; each rank keeps the state of its own tensors only."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.training import make_optimizer, param_groups, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_group, once_a_group
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import weighed_case, with_batches
from grader.exercises.shared.zero_cases import odd_models, optimizer_for, with_inputs
from grader.judging.exercise import Case, Draw, Exercise, Slip

STEPS, LR = 4, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        make = with_batches(draw, lambda n: 2, STEPS, lr=LR, two_groups=n in (2, 4), **optimizer_for(model, n))
        return make(model, n, seed)

    cases = odd_models(draw, grading, inputs, "2 tensors")
    for of_rank in (inputs for case in cases for inputs in case.inputs if inputs["model"] == "seldom"):
        of_rank["xs"][-1][:, 0] = 1  # the layer that rested is back
    return [*cases, *weighed_case(inputs, grading, optimizer="AdamW", options={"amsgrad": True})]


@once_a_group
def _train(case: Case, rank: int, factor: float = 1.0, zeros: bool = False) -> dict[str, Any]:
    """One process on the mean gradient. factor: of the gradients. zeros: where there is no gradient."""
    inputs, model = case.inputs[rank], model_of(case, rank)
    optimizer = make_optimizer(inputs, param_groups(model, inputs))

    def fill() -> None:
        for p in model.parameters() if zeros else ():
            p.grad = torch.zeros_like(p) if p.requires_grad and p.grad is None else p.grad

    if inputs["model"] == "seldom":  # as its ranks do: before there is any gradient
        fill()
        optimizer.step()
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = [loss_rows(model(xs[step]), ys[step]).mean()
                  for xs, ys in zip(case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
        (sum(losses) / len(losses) * factor).backward()
        fill()
        optimizer.step()
    return {"parameters": parameters(model)}


EXERCISE = Exercise(
    title="Shard any optimizer",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_group(_train),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={"values": 2, "technique": 3},
    slips=(
        Slip("sum for mean", "The owner steps with the sum of the gradients: divide by the number of ranks.",
             lambda case, r, right: _train(case, r, factor=case.group_size(r)),
             shows=lambda case: all(inputs["optimizer"] == "SGD" for inputs in case.inputs)),  # AdamW hardly feels a scale
        Slip("divided by the world", "Right for the whole world, wrong in a group: divide by the number of ranks that took "
                                     "part, dist.get_world_size(group).",
             lambda case, r, right: _train(case, r, factor=case.group_size(r) / case.world_size),
             shows=lambda case: case.groups is not None),
        Slip("groups ignored", "Parameter groups have options of their own (here a learning rate): make the wrapped "
                               "optimizer with the same groups, each with this rank's part of its parameters.",
             lambda case, r, right: _train(with_inputs(case, two_groups=False), r)),
        Slip("zeros for None", "A parameter whose grad is None keeps its value and its state: zeros in its place let weight "
                               "decay and momentum move it.", lambda case, r, right: _train(case, r, zeros=True)),
    ),
)
