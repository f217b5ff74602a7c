"""Reduce when ready: a hook on every parameter starts its all-reduce while the backward pass goes on."""

from functools import partial
from typing import Any

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import OF_A_MEAN, REPLICAS, mean_gradients, own_gradients
from grader.exercises.shared.training_cases import WRONGLY_SCALED, model_cases, unreached_open, with_batches
from grader.exercises.shared.zero_cases import with_rests
from grader.exercises.technique.models import reduced
from grader.judging.exercise import Case, Draw, Exercise, Slip

from .technique import STEPS

LEFT = (None, 1.0)  # what gradients are left from before at each backward pass


def _cases(draw: Draw, grading: bool) -> list[Case]:
    return model_cases(draw, grading, ("mlp", "tied", "frozen", "seldom", "gpt"), with_rests(with_batches(
        draw, lambda n: 2, STEPS, left=LEFT)))


def _means(case: Case, rank: int) -> list[dict[str, Any]]:
    members = case.members(rank)
    return [mean_gradients(case, rank, [(case.inputs[m]["xs"][step], case.inputs[m]["ys"][step]) for m in members], left)
            for step, left in enumerate(LEFT)]


def _own(case: Case, rank: int, right: list) -> list[dict[str, Any]]:
    inputs = case.inputs[rank]
    return [own_gradients(case, rank, *batch) for batch in zip(inputs["xs"], inputs["ys"], LEFT, strict=True)]


def _own_divided(case: Case, rank: int, right: list) -> list[dict[str, Any]]:
    n = case.group_size(rank)
    return [{name: None if g is None else g / n for name, g in own.items()} for own in _own(case, rank, right)]


def _in_the_second(slip: Slip) -> Slip:
    """The first backward pass goes well."""
    return Slip(slip.id, slip.hint, lambda case, rank, right: [right[rank][0], *slip.wrong(case, rank, right)[1:]])


def _unreduced_divided(case: Case, rank: int, right: list, reached_before: bool = False) -> list[dict[str, Any]]:
    """What a pass does not reach is divided, or of that only what the first pass reached."""
    n, first = case.group_size(rank), reduced(case, rank)
    return [{name: g if g is None or name in reduced(case, rank, number) or (reached_before and name not in first) else g / n
             for name, g in means.items()} for number, means in enumerate(right[rank])]


def _where_reached(slip: Slip) -> Slip:
    """What stood from before may be anything where nothing was reduced."""
    return Slip(slip.id, slip.hint, lambda case, rank, right: [
        unreached_open(case, rank, gradients, number) for number, gradients in enumerate(slip.wrong(case, rank, right))])


_BEFORE_STORED = Slip(
    "own gradients divided", "What was reduced is not what p.grad holds: register_hook shows a gradient before it is "
    "stored. In register_post_accumulate_grad_hook, p.grad is there.", _own_divided)


EXERCISE = Exercise(
    title="Reduce while the backward pass goes on",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(_means),
    trains=True,
    late_s=0.5,  # so that the others have begun all their all-reduces meanwhile, on a busy machine too
    forbidden=REPLICAS,
    tolerance=OF_A_MEAN,
    slips=(
        *map(_where_reached, WRONGLY_SCALED),
        Slip("own gradients", "Each rank still has the gradients of its own rows: nothing was reduced. A hook must be "
                              "registered on each parameter with requires_grad.", _own),
        _where_reached(_BEFORE_STORED),
        _where_reached(_in_the_second(_BEFORE_STORED)),
        _in_the_second(Slip(
            "hooks gone", "Right in the first backward pass; in the second each rank keeps its own gradients: hooks are "
            "registered once, and stay. finish() must not remove them.", _own)),
        Slip("unreduced divided", "A gradient that stood from before, and was not reduced in this pass, is divided all the "
                                  "same: finish() divides what it waited for, and nothing else.", _unreduced_divided),
        Slip("unreduced divided", "A gradient that an earlier pass reached, and this one did not, is divided all the same: "
                                  "finish() must forget what it divided.", partial(_unreduced_divided, reached_before=True)),
    ),
)
