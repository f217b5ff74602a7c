"""DropInShardedOptimizer: a sharded optimizer with everything that training loops ask of one of torch's."""

import functools
from collections.abc import Sequence
from typing import Any

from grader.calling.training import make_optimizer, param_groups, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_rank, once_a_group
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import model_cases, with_batches
from grader.exercises.shared.zero_cases import optimizer_for, with_inputs
from grader.judging.compare import ANYTHING
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

from .call import DECAY, MOMENTUM, defaults_of
from .technique import CLOSURE_LATE, NO_DEFAULTS, RATE_NOT_HEARD

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
GROUPS = "Parameter groups have options of their own (here a learning rate): copy the options group by group."


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        make = with_batches(draw, lambda n: 2, STEPS, lr=LR, two_groups=n in (2, 4), **optimizer_for(model, n))
        return make(model, n, seed)

    return model_cases(draw, grading, ("mlp", "linear"), inputs)


@once_a_group
def _train(case: Case, rank: int, rates: Sequence[float] = RATES, begins: Sequence[int] = (0,),
           cycled: Sequence[int] = CYCLED, decays: bool = True, steps: int = STEPS) -> dict[str, Any]:
    """One process on the mean gradient: the parameters, and each member's last loss.

    begins: the steps before which the optimizer is made, and knows of none before.
    cycled: steps that have a scheduler's momentum. decays: whether weights do in the second half.
    """
    inputs, model = case.inputs[rank], model_of(case, rank)
    for step in range(steps):
        if step in begins:
            optimizer = make_optimizer(inputs, param_groups(model, inputs))
            options = [dict(group) for group in optimizer.param_groups]
        for group, first in zip(optimizer.param_groups, options, strict=True):
            group |= first | {"lr": first["lr"] * rates[step]}
            if decays and step >= HALF:
                group["weight_decay"] = DECAY
            if step in cycled:
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
    title="Make it a drop-in replacement",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={VALUES: 3},
    slips=(
        Slip("groups ignored", GROUPS, lambda case, r, right: _trained(_one_group(case), r)),
        *(Slip("groups ignored", GROUPS, lambda case, r, right, heard=heard: _trained(
            _one_group(case), r, decays=False, **heard)) for heard in (NEVER, RATE_ONLY)),
        _other_way("options not loaded", "After load_state_dict() the rate is not the one that a scheduler had come to: the "
                                         "state that is saved holds the options as they are now, and what is loaded goes "
                                         "into self.param_groups too, else the old options win again.", **NOT_LOADED),
        _other_way("options not saved", "A scheduler changed the rate after the last step, and the saved state does not "
                                        "know it: state_dict() copies the options of self.param_groups into the "
                                        "wrapped optimizer first.", **NOT_SAVED),
        _other_way("closure too late", CLOSURE_LATE, steps=HALF),
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
