"""DropInShardedOptimizer: a sharded optimizer with everything that training loops ask of one of torch's."""

from collections.abc import Sequence
from typing import Any

from grader.calling.training import make_optimizer, param_groups, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_rank, once_a_group
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import model_cases, with_batches
from grader.exercises.shared.zero_cases import optimizer_for
from grader.judging.exercise import VALUES, Case, Draw, Exercise

from .call import DECAY, MOMENTUM

STEPS, LR = 4, 0.05
HALF = STEPS // 2  # from here on another optimizer, with the first one's state
RATES, CYCLED = (1.0, 1.0, 0.5, 0.25), (1, 2, 3)  # of LR, step by step; steps with another momentum; see call.py


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        make = with_batches(draw, lambda n: 2, STEPS, lr=LR, two_groups=n in (2, 4), **optimizer_for(model, n))
        return make(model, n, seed)

    return model_cases(draw, grading, ("mlp", "linear"), inputs)


@once_a_group
def _train(case: Case, rank: int) -> dict[str, Any]:
    """One process on the mean gradient: the parameters, and each member's last loss."""
    inputs, model = case.inputs[rank], model_of(case, rank)
    optimizer = make_optimizer(inputs, param_groups(model, inputs))
    options = [dict(group) for group in optimizer.param_groups]
    for step in range(STEPS):
        for group, first in zip(optimizer.param_groups, options, strict=True):
            group |= first | {"lr": first["lr"] * RATES[step]}
            if step >= HALF:
                group["weight_decay"] = DECAY
            if step in CYCLED:
                group |= {"momentum": MOMENTUM} if "momentum" in group else {"betas": (MOMENTUM, *group["betas"][1:])}
        optimizer.zero_grad()
        losses = [loss_rows(model(xs[step]), ys[step]).mean()
                  for xs, ys in zip(case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
        (sum(losses) / len(losses)).backward()
        optimizer.step()
    return {"parameters": parameters(model), "losses": [loss.detach() for loss in losses]}


def _right(case: Case, rank: int) -> dict[str, Any]:
    trained = _train(case, rank)
    return {"parameters": trained["parameters"], "loss": trained["losses"][case.group_rank(rank)], "missing defaults": [],
            "all saved": True}


EXERCISE = Exercise(
    title="Make it a drop-in replacement",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={VALUES: 3},
)
