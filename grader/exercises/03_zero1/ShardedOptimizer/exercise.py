"""ShardedOptimizer: wraps any optimizer class; each rank keeps the state of its own tensors only."""

from collections.abc import Sequence
from typing import Any

from grader.calling.training import make_optimizer, param_groups, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_group, once_a_group
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import weighed_case, with_batches
from grader.exercises.shared.zero_cases import odd_models, optimizer_for
from grader.judging.exercise import Case, Draw, Exercise

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
def _train(case: Case, rank: int) -> dict[str, Any]:
    """One process on the mean gradient."""
    inputs, model = case.inputs[rank], model_of(case, rank)
    optimizer = make_optimizer(inputs, param_groups(model, inputs))
    if inputs["model"] == "seldom":  # as its ranks do: before there is any gradient
        optimizer.step()
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = [loss_rows(model(xs[step]), ys[step]).mean()
                  for xs, ys in zip(case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
        (sum(losses) / len(losses)).backward()
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
)
