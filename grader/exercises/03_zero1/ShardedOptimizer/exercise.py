"""ShardedOptimizer: wraps any optimizer class; each rank keeps the state of its own tensors only."""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.training import make_optimizer, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_rank, once_a_group
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import weighed_case, with_batches
from grader.exercises.shared.zero_cases import odd_models, optimizer_for, with_inputs
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .call import DECAY, MOMENTUM, defaults_of, param_groups
from .technique import GROUPS, NO_DEFAULTS, RATE_NOT_HEARD

STEPS, LR = 4, 0.05
HALF = STEPS // 2  # from here on another optimizer, with the first one's state
RATES, CYCLED = (1.0, 1.0, 0.5, 0.25), (1, 2, 3)  # of LR, step by step; steps with another momentum; see call.py
ALWAYS: dict[str, Any] = {"rates": RATES, "cycled": CYCLED}  # when schedulers were heard
RATE_ONLY: dict[str, Any] = {"rates": RATES, "cycled": ()}
NEVER: dict[str, Any] = {"rates": (1.0, 1.0, 1.0, 1.0), "cycled": ()}
UNTIL_LOADED: dict[str, Any] = {"rates": (1.0, 1.0, 0.5, 0.5), "cycled": (2, 3)}
NOT_LOADED: dict[str, Any] = {"rates": (1.0, 1.0, 1.0, 0.5), "cycled": (1,)}  # what they had come to is lost
NOT_SAVED: dict[str, Any] = NOT_LOADED | {"cycled": CYCLED}  # all but what came after the last step
OTHERS_NOT_HEARD = ("Every option in self.param_groups counts, not \"lr\" alone (schedulers change momentum or betas too, "
                    "and you may change the weight decay): copy them all before the wrapped optimizer steps.")
STATE_LOST = ("After load_state_dict() the training begins as if there had been no step before: the state is the wrapped "
              "optimizer's, so save and load that one.")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        make = with_batches(draw, lambda n: 2, STEPS, lr=LR, two_groups=n in (2, 4), **optimizer_for(model, n))
        return make(model, n, seed)

    cases = odd_models(draw, grading, inputs, "2 tensors")
    for of_rank in (inputs for case in cases for inputs in case.inputs if inputs["model"] == "seldom"):
        of_rank["xs"][-1][:, 0] = 1  # the layer that rested is back
    return [*cases, *weighed_case(inputs, grading, optimizer="AdamW", options={"amsgrad": True})]


@once_a_group
def _train(case: Case, rank: int, rates: Sequence[float] = RATES, begins: Sequence[int] = (0,),
           cycled: Sequence[int] = CYCLED, decays: bool = True, factor: float = 1.0, steps: int = STEPS,
           zeros: bool = False) -> dict[str, Any]:
    """One process on the mean gradient: the parameters, and each member's last loss.

    begins: the steps before which the optimizer is made, and knows of none before.
    cycled: steps that have a scheduler's momentum. decays: whether weights do in the second half. factor: of the gradients.
    zeros: where there is no gradient.
    """
    inputs, model = case.inputs[rank], model_of(case, rank)
    for step in range(steps):
        if step in begins:
            optimizer = make_optimizer(inputs, param_groups(model, inputs))
            options = [dict(group) for group in optimizer.param_groups]
        for group, own in zip(optimizer.param_groups, options, strict=True):
            group |= own | {"lr": own["lr"] * rates[step]}
            if decays and step >= HALF:
                group["weight_decay"] = DECAY
            if step in cycled:
                group |= {"momentum": MOMENTUM} if "momentum" in group else {"betas": (MOMENTUM, *group["betas"][1:])}
        optimizer.zero_grad()
        losses = [loss_rows(model(xs[step]), ys[step]).mean()
                  for xs, ys in zip(case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)]
        (sum(losses) / len(losses) * factor).backward()
        for p in model.parameters() if zeros else ():
            p.grad = torch.zeros_like(p) if p.requires_grad and p.grad is None else p.grad
        optimizer.step()
    return {"parameters": parameters(model), "losses": [loss.detach() for loss in losses]}


def _right(case: Case, rank: int) -> dict[str, Any]:
    trained = _train(case, rank)
    return {"parameters": trained["parameters"], "loss": trained["losses"][case.group_rank(rank)], "missing defaults": [],
            "all saved": True}


def _trained(case: Case, rank: int, **how: Any) -> dict[str, Any]:
    """The parameters that another way of training gives."""
    return {"parameters": _train(case, rank, **how)["parameters"], "loss": ANYTHING, "missing defaults": ANYTHING,
            "all saved": ANYTHING}


@functools.lru_cache(maxsize=8)
def _one_group(case: Case) -> Case:
    """The same case, all parameters in one group of options."""
    return with_inputs(case, two_groups=False)


def _other_way(id: str, hint: str, **how: Any) -> Slip:
    """how: as _train takes it."""
    return Slip(id, hint, lambda case, r, right: _trained(case, r, **how))


EXERCISE = Exercise(
    title="Shard any optimizer",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("sum for mean", "The owner steps with the sum of the gradients: divide by the number of ranks.",
             lambda case, r, right: _trained(case, r, factor=case.group_size(r)),
             shows=lambda case: all(inputs["optimizer"] == "SGD" for inputs in case.inputs)),  # AdamW hardly feels a scale
        Slip("divided by the world", "Right for the whole world, wrong in a group: divide by the number of ranks that took "
                                     "part, dist.get_world_size(group).",
             lambda case, r, right: _trained(case, r, factor=case.group_size(r) / case.world_size),
             shows=lambda case: case.groups is not None),
        Slip("groups ignored", GROUPS, lambda case, r, right: _trained(_one_group(case), r)),
        *(Slip("groups ignored", GROUPS, lambda case, r, right, heard=heard: _trained(
            _one_group(case), r, decays=False, **heard)) for heard in (NEVER, RATE_ONLY)),
        _other_way("options not loaded", "After load_state_dict() the rate is not the one that a scheduler had come to: the "
                                         "state that is saved holds the options as they are now, and what is loaded goes "
                                         "into self.param_groups too, else the old options win again.", **NOT_LOADED),
        _other_way("options not saved", "A scheduler changed the rate after the last step, and the saved state does not "
                                        "know it: state_dict() copies the options of self.param_groups into the "
                                        "wrapped optimizer first.", **NOT_SAVED),
        _other_way("closure too late", "The closure computes the gradients, so step(closure) calls it first, then reduces "
                                       "and updates.", steps=HALF),
        _other_way("zeros for None", "A parameter whose grad is None keeps its value and its state: zeros in its place let "
                                     "weight decay and momentum move it.", zeros=True),
        *(_other_way("state lost", STATE_LOST, begins=(0, HALF), **heard) for heard in (ALWAYS, NEVER, UNTIL_LOADED)),
        *(_other_way("rate not heard", RATE_NOT_HEARD, decays=False, **heard) for heard in (NEVER, UNTIL_LOADED)),
        *(_other_way("other options not heard", OTHERS_NOT_HEARD, cycled=cycled, decays=decays)
          for cycled, decays in (((), False), ((), True), (CYCLED[1:], False))),
        Slip("defaults", NO_DEFAULTS, lambda case, r, right: right[r] | {"all saved": ANYTHING, "missing defaults": sorted(
            defaults_of(case.inputs[r]).keys() - {"lr", *case.inputs[r]["options"]})}),
        Slip("new options not copied", "Schedulers write options of their own into self.param_groups (initial_lr, max_lr), "
                                       "and what is saved lacks them: copy all that is there, also what the wrapped "
                                       "optimizer's groups do not have yet.",
             lambda case, r, right: right[r] | {"all saved": False}),
    ),
)
