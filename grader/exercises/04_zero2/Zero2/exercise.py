"""Zero2: gradients and optimizer state in shards, for any module and any optimizer that works number by number."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grader.calling.training import parameters
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, model_of, train
from grader.exercises.shared.training_cases import with_batches
from grader.exercises.shared.zero_cases import odd_models, optimizer_for
from grader.judging.exercise import Case, Draw, Exercise, Slip

STEPS, LR, GAMMA = 2, 0.05, 0.5


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        micro = 2 if n in (2, 3) else 1
        make = with_batches(draw, lambda n: 2, STEPS * micro, lr=LR, gamma=GAMMA, micro=micro, **optimizer_for(model, n))
        return make(model, n, seed)

    return odd_models(draw, grading, inputs, "a tensor of 3 numbers")


def _last_passes(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
    """As if each step had only its last backward pass, whose loss is still divided by their number."""
    micro = case.inputs[rank]["micro"]
    last = tuple(inputs | {"micro": 1, "xs": inputs["xs"][micro - 1::micro], "ys": inputs["ys"][micro - 1::micro]}
                 for inputs in case.inputs)
    return train(replace(case, inputs=last), rank, factor=1 / micro)["parameters"]


EXERCISE = Exercise(
    title="Train with gradients in shards",
    parameters=("module", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: train(case, r)["parameters"]),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("nothing trained", "The parameters are those of the start: after the optimizer's step on the shards, "
                                "all-gather them into the module's parameters.",
             lambda case, r, right: parameters(model_of(case, r))),
        Slip("sum for mean", "The shards are updated with the sum of the gradients: divide by the number of ranks.",
             lambda case, r, right: train(case, r, factor=case.group_size(r))["parameters"]),
        Slip("last pass only", "Of several backward passes only the last one counts: add to the gradient that the "
                               "shard has.", _last_passes),
        Slip("gradients pile up", "Right after the first step, wrong later: zero_grad() must forget the gradient shards, "
                                  "and the next step begins from none.",
             lambda case, r, right: train(case, r, forget=False)["parameters"]),
    ),
)
