"""ShardedOptimizer: wraps any optimizer class; each rank keeps the state of its own tensors only."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.training import make_optimizer, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import with_batches
from grader.exercises.shared.zero_cases import odd_models, optimizer_for, with_inputs
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .call import DECAY, defaults_of, param_groups
from .technique import RATE_NOT_HEARD

STEPS, LR = 4, 0.05
HALF = STEPS // 2  # from here on another optimizer, with the first one's state
RATES = (1.0, 1.0, 0.5, 0.25)  # of LR, step by step, see call.py
NEVER, UNTIL_LOADED = (1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 0.5, 0.5)  # when a scheduler was heard
NOT_LOADED = (1.0, 1.0, 1.0, 0.5)  # what it had come to is lost
GROUPS = ("Parameter groups have options of their own (here a learning rate): keep the groups, each with this rank's part "
          "of its parameters, and hand the options on group by group.")
STATE_LOST = ("After load_state_dict() the training begins as if there had been no step before: the state is the wrapped "
              "optimizer's, so save and load that one.")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        make = with_batches(draw, lambda n: 2, STEPS, lr=LR, two_groups=n in (2, 4), **optimizer_for(model, n))
        return make(model, n, seed)

    return odd_models(draw, grading, inputs, "2 tensors")


def _train(case: Case, rank: int, rates: Sequence[float] = RATES, begins: Sequence[int] = (0,),
           decay: float = DECAY, factor: float = 1.0, steps: int = STEPS, zeros: bool = False) -> dict[str, Any]:
    """One process on the mean gradient. begins: the steps before which the optimizer is made, and knows of none before.

    decay: of the weights, in the second half. factor: of the gradients. zeros: where there is no gradient.
    """
    inputs, model = case.inputs[rank], model_of(case, rank)
    for step in range(steps):
        if step in begins:
            optimizer = make_optimizer(inputs, param_groups(model, inputs))
            first_rates = [group["lr"] for group in optimizer.param_groups]
        for group, lr in zip(optimizer.param_groups, first_rates, strict=True):
            group["lr"] = lr * rates[step]
            if step >= HALF:
                group["weight_decay"] = decay
        optimizer.zero_grad()
        losses = [loss_rows(model(xs[step]), ys[step]).mean()
                  for xs, ys in zip(case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
        (sum(losses) / len(losses) * factor).backward()
        for p in model.parameters() if zeros else ():
            p.grad = torch.zeros_like(p) if p.requires_grad and p.grad is None else p.grad
        optimizer.step()
    return {"parameters": parameters(model), "loss": losses[case.group_rank(rank)].detach(), "missing defaults": []}


def _trained(case: Case, rank: int, *how: Any) -> dict[str, Any]:
    """The parameters that another way of training gives."""
    return _train(case, rank, *how) | {"loss": ANYTHING, "missing defaults": ANYTHING}


def _other_way(id: str, hint: str, *how: Any) -> Slip:
    """rates, begins and decay as _train takes them."""
    return Slip(id, hint, lambda case, r, right: _trained(case, r, *how))


def _undecayed(case: Case, rank: int) -> float:
    """The optimizer's own weight decay, which it keeps where it does not hear of another."""
    return defaults_of(case.inputs[rank])["weight_decay"]


EXERCISE = Exercise(
    title="Shard any optimizer",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_train),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("sum for mean", "The owner steps with the sum of the gradients: divide by the number of ranks.",
             lambda case, r, right: _trained(case, r, RATES, (0,), DECAY, case.group_size(r)),
             shows=lambda case: all(inputs["optimizer"] == "SGD" for inputs in case.inputs)),  # AdamW hardly feels a scale
        Slip("divided by the world", "Right for the whole world, wrong in a group: divide by the number of ranks that took "
                                     "part, dist.get_world_size(group).",
             lambda case, r, right: _trained(case, r, RATES, (0,), DECAY, case.group_size(r) / case.world_size),
             shows=lambda case: case.groups is not None),
        Slip("groups ignored", GROUPS, lambda case, r, right: _trained(with_inputs(case, two_groups=False), r)),
        *(Slip("groups ignored", GROUPS, lambda case, r, right, rates=rates: _trained(
            with_inputs(case, two_groups=False), r, rates, (0,), _undecayed(case, r))) for rates in (RATES, NEVER)),
        _other_way("options not loaded", "After load_state_dict() the rate is not the one that a scheduler had come to: the "
                                         "state that is saved holds the options as they are now, and what is loaded goes "
                                         "into self.param_groups too, else the old options win again.", NOT_LOADED),
        _other_way("closure too late", "The closure computes the gradients, so step(closure) calls it first, then reduces "
                                       "and updates.", RATES, (0,), DECAY, 1.0, HALF),
        _other_way("zeros for None", "What has no grad is left alone: zeros in its place let weight decay and momentum move "
                                     "it.", RATES, (0,), DECAY, 1.0, STEPS, True),
        *(_other_way("state lost", STATE_LOST, rates, (0, HALF)) for rates in (RATES, NEVER, UNTIL_LOADED)),
        *(Slip("rate not heard", RATE_NOT_HEARD, lambda case, r, right, rates=rates: _trained(
            case, r, rates, (0,), _undecayed(case, r))) for rates in (NEVER, UNTIL_LOADED)),
        Slip("other options not heard", "Every option in self.param_groups counts, not \"lr\" alone (schedulers change "
                                        "momentum too, and you may change the weight decay): copy them all before the "
                                        "wrapped optimizer steps.",
             lambda case, r, right: _trained(case, r, RATES, (0,), _undecayed(case, r))),
        Slip("defaults", "Schedulers such as OneCycleLR look into optimizer.defaults, which lacks options of the wrapped "
                         "optimizer: set self.defaults to the wrapped one's.",
             lambda case, r, right: right[r] | {"missing defaults": sorted(
                 defaults_of(case.inputs[r]).keys() - {"lr", *case.inputs[r]["options"]})}),
    ),
)
