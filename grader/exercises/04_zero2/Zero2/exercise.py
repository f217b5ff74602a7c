"""Zero2: gradients and optimizer state in shards, for any module and any optimizer that works number by number."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from grader.calling.training import parameters
from grader.exercises.shared.cases import each_group, once_a_group
from grader.exercises.shared.one_process import TOLERANCE, model_of, train
from grader.exercises.shared.training_cases import weighed_case, with_batches
from grader.exercises.shared.zero_cases import odd_models, optimizer_for, with_inputs
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

STEPS, LR, GAMMA = 2, 0.05, 0.5


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        micro = 2 if n in (2, 4) else 1
        make = with_batches(draw, lambda n: 2, STEPS * micro, lr=LR, gamma=GAMMA, micro=micro, kept=[1] * (n in (1, 3)),
                            twice=[STEPS] * (n == 1),
                            **optimizer_for(model, n))
        return make(model, n, seed)

    return [*odd_models(draw, grading, inputs, "a tensor of 3 elements"), *weighed_case(inputs, grading)]


def _one_step_less(case: Case) -> Case:
    return replace(case, inputs=tuple(
        inputs | {name: inputs[name][:-inputs["micro"]] for name in ("xs", "ys")} for inputs in case.inputs))


def _stays(case: Case, rank: int, in_place: bool) -> float:
    """What a gradient that stays over a step is multiplied by, if the step divides it in place; see _cases."""
    return 1 / case.group_size(rank) if in_place and case.inputs[rank]["micro"] == 1 else 1.0


def _trained(id: str, hint: str, how: Callable[[Case, int], dict[str, Any]], **shows: Callable[[Case], bool]) -> Slip:
    """how(case, rank) trains in another way."""
    trained = once_a_group(how)
    return Slip(id, hint, lambda case, r, right: trained(case, r)["parameters"], **shows)


ZEROS = ("A parameter that takes no part in a step has no entry in buckets.shards, and the grad of its shard must be None: "
         "with zeros for one, weight decay and momentum move it all the same.")

EXERCISE = Exercise(
    title="Train with gradients in shards",
    parameters=("module", "buckets", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: train(case, r)["parameters"]),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("nothing trained", "The module's tensors are those of the start: after the optimizer's step on the shards, "
                                "gather them and copy them in place (copy_); p.data = … puts other tensors there.",
             lambda case, r, right: parameters(model_of(case, r))),
        *(_trained("divided twice", "The gradients are n times too small: what the buckets hold is the mean already.",
                   lambda case, r, in_place=in_place: train(case, r, factor=1 / case.group_size(r), standing=_stays(
                       case, r, in_place))) for in_place in (False, True)),
        _trained("mean over passes", "Gradients of several passes add up, as in p.grad: the mean is over ranks only.",
                 lambda case, r: train(case, r, factor=1 / case.inputs[r]["micro"]),
                 shows=lambda case: not any(inputs["kept"] for inputs in case.inputs)),
        _trained("options dropped", "The wrapped class gets options (**options, here momentum): pass all of them on to it.",
                 lambda case, r: train(with_inputs(case, options={}), r)),
        _trained("one step behind", "The parameters are one step behind: the optimizer steps on the shards first, then "
                                    "they are gathered.", lambda case, r: train(_one_step_less(case), r),
                 shows=lambda case: not case.inputs[0]["twice"]  # its second step() gathers what the first one made
                 and case.inputs[0]["model"] != "seldom"),  # where what rests is gathered, or is not
        _trained("zeros for None", ZEROS, lambda case, r: train(case, r, zeros_from=1)),
        _trained("zeros for None", ZEROS, lambda case, r: train(case, r, zeros_from=2)),
        _trained("zeros for None", ZEROS, lambda case, r: train(case, r, set_to_none=False)),
        *(_trained("step forgets", "A step leaves the gradients where they are, and only zero_grad() forgets them: whoever "
                                   "does not call it goes on adding.",
                   lambda case, r, gone=gone: train(with_inputs(case, **gone), r))
          for gone in ({"kept": ()}, {"kept": (), "twice": ()})),
        _trained("second step lost", "A second step() before zero_grad() moves the parameters again: it must gather all "
                                     "shards that have a gradient, not only those to which one came since the last step.",
                 lambda case, r: train(with_inputs(case, twice=()), r)),
        Slip("copy written to", "Where a weight is not contiguous it stays as it was: flatten() and reshape() then make a "
                                "copy, and whoever writes into that changes nothing. p.data.copy_(….view_as(p)) does.",
             lambda case, r, right: {"weight": parameters(model_of(case, r))["weight"], "bias": ANYTHING},
             shows=lambda case: case.inputs[0]["model"] == "linear"),
        Slip("gradients pile up", "Right after the first step, wrong later: zero_grad() must empty buckets.shards, and the "
                                  "next step begins from none.",
             lambda case, r, right: train(case, r, forget=False)["parameters"]),
    ),
)
