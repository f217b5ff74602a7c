"""DataParallel: wraps any module; broadcast at the start, gradients averaged while the backward pass goes on."""

from typing import Any

import torch

from grader.calling.training import numbers
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import TOLERANCE, model_of, train
from grader.exercises.shared.training_cases import SEEDS, WRONGLY_SCALED, model_cases, unreached_open, with_batches
from grader.exercises.technique.models import reduced
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip

from ..broadcast_model.exercise import NOT_SAVED, buffers, frozen, keeps, not_saved
from .technique import STEPS

MICRO, LR = 2, 0.05


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict[str, Any]]:
        micro = 1 if n == 2 else MICRO
        make = with_batches(draw, lambda n: 2, STEPS * micro, micro=micro, optimizer="SGD" if n % 2 else "AdamW", lr=LR)
        left = {"left": 1.0} if model == "unused" else {}
        return [{**own, **left, "seed": seed if r == 0 else draw.integer(0, SEEDS)}
                for r, own in enumerate(make(model, n, seed))]

    return model_cases(draw, grading, ("mlp", "buffered", "tied", "frozen", "unused", "mixed", "empty", "gpt"), inputs)


def _right(case: Case, rank: int) -> dict[str, Any]:
    trained = train(case, rank)
    return {"start": numbers(model_of(case, rank)), "gradients": trained["gradients"],
            "parameters": trained["parameters"]}


def _in_part(part: str, slip: Slip, **after: Any) -> Slip:
    """The slip is made in one part of the result; what comes after it may be anything."""
    return Slip(slip.id, slip.hint, lambda case, r, right: right[r] | {
        part: slip.wrong(case, r, [of_rank[part] for of_rank in right])} | after)


def _where_reached(slip: Slip) -> Slip:
    """What stood from before may be anything where nothing was reduced."""
    return Slip(slip.id, slip.hint, lambda case, rank, right: unreached_open(case, rank, slip.wrong(case, rank, right)))


def _zeros_for_none(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    model = model_of(case, rank)
    return {name: torch.zeros_like(p) if right[rank][name] is None and p.requires_grad else right[rank][name]
            for name, p in model.named_parameters()}


def _unreduced_divided(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    n, reached = case.group_size(rank), reduced(case, rank)
    return {name: g if g is None or name in reached else g / n for name, g in right[rank].items()}


EXERCISE = Exercise(
    title="Wrap any module",
    parameters=("module", "group"),
    make_cases=_cases,
    oracle=each_group(_right),
    trains=True,
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        _in_part("start", keeps("buffers forgotten", "The ranks begin with the same parameters and different buffers: "
                                                     "broadcast module.buffers() too.", buffers),
                 gradients=ANYTHING, parameters=ANYTHING),
        _in_part("start", keeps("buffers not saved", NOT_SAVED, not_saved), gradients=ANYTHING, parameters=ANYTHING),
        _in_part("start", keeps("frozen forgotten", "Parameters that are not trained differ between ranks: they take part "
                                                    "in the forward pass, so broadcast them too.", frozen),
                 gradients=ANYTHING, parameters=ANYTHING),
        *(_in_part("gradients", _where_reached(slip), parameters=ANYTHING) for slip in WRONGLY_SCALED),
        _in_part("gradients", Slip(
            "zeros for none", "A parameter that had no gradient has zeros now: AdamW would decay it. Leave None as it is.",
            _zeros_for_none), parameters=ANYTHING),
        _in_part("gradients", Slip(
            "unreduced divided", "A gradient that stood from before, and was not reduced in this pass, is divided all the "
            "same: divide what was waited for, and nothing else.", _unreduced_divided), parameters=ANYTHING),
    ),
)
