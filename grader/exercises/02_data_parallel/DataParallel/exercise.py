"""DataParallel: wraps any module; broadcast at the start, gradients averaged while the backward pass goes on."""

from typing import Any

import torch

from grader.calling.training import gradients, leave_gradients, numbers
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_group, once_a_group
from grader.exercises.shared.one_process import REPLICAS, TOLERANCE, model_of, train
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

    cases = model_cases(draw, grading, ("mlp", "buffered", "tied", "frozen", "unused", "mixed", "empty", "gpt"), inputs)
    if grading:
        watched = [own | {"watched": True} for own in inputs("buckets", 2, draw.integer(0, SEEDS))]
        cases.append(Case("2 ranks, several buckets", tuple(watched)))
    return cases


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


# ── accumulation gone wrong: of the first step's backward passes, some or all are not reduced, or not there ──


def _passes(case: Case, member: int, first: int, last: int | None = None, left: float | None = None) -> dict[str, Any]:
    """What a rank's own rows leave: the gradients of passes first to last, added to what is `left` from before."""
    inputs, model = case.inputs[member], model_of(case, member)
    leave_gradients(model, left)
    for x, y in list(zip(inputs["xs"], inputs["ys"], strict=True))[:inputs["micro"]][first:last]:
        loss = loss_rows(model(x), y).mean() / inputs["micro"]
        if loss.requires_grad:
            loss.backward()
    return gradients(model)


def _own(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    return _passes(case, rank, 0, left=case.inputs[rank].get("left"))


def _own_after_others(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    """Where no_sync() came before."""
    return _own(case, rank, right) if case.inputs[rank]["micro"] > 1 else right[rank]


@once_a_group
def _last(case: Case, rank: int) -> dict[str, Any]:
    """The mean over ranks of the last pass alone."""
    of_members = [_passes(case, member, -1) for member in case.members(rank)]
    return {name: None if g is None else torch.stack([own[name] for own in of_members]).mean(0)
            for name, g in of_members[0].items()}


def _last_only(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    """A single pass loses nothing."""
    last = _last(case, rank) if case.inputs[rank]["micro"] > 1 else right[rank]
    return {name: g if last[name] is None else last[name] for name, g in right[rank].items()}


def _earlier_own(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    before, last = _passes(case, rank, 0, -1, case.inputs[rank].get("left")), _last(case, rank)
    return {name: g if before[name] is None or last[name] is None else before[name] + last[name]
            for name, g in right[rank].items()}


def _divided_by_passes(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    reached, micro = reduced(case, rank), case.inputs[rank]["micro"]
    return {name: g / micro if name in reached else g for name, g in right[rank].items()}


def _unreduced_divided(case: Case, rank: int, right: list[dict[str, Any]]) -> dict[str, Any]:
    n, reached = case.group_size(rank), reduced(case, rank)
    return {name: g if g is None or name in reached else g / n for name, g in right[rank].items()}


EXERCISE = Exercise(
    title="Wrap any module",
    parameters=("module", "group"),
    make_cases=_cases,
    oracle=each_group(_right),
    trains=True,
    late_s=0.5,  # so that the others have begun all their all-reduces meanwhile, on a busy machine too
    forbidden=REPLICAS,
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
        *(_in_part("gradients", Slip(
            "own gradients", "Each rank still has the gradients of its own rows: in the pass that counts, nothing was "
            "reduced. Are there hooks on the module's parameters, and do they work again once no_sync() has ended, by an "
            "error too (try, yield, finally)?", own),
            parameters=ANYTHING) for own in (_own, _own_after_others)),
        _in_part("gradients", _where_reached(Slip(
            "earlier passes lost", "Only the last backward pass is in the gradients: no_sync() keeps the hooks quiet, and "
            "leaves p.grad alone, so that the passes inside it add up.", _last_only)), parameters=ANYTHING),
        _in_part("gradients", Slip(
            "earlier passes not reduced", "The last pass's gradient is the mean over ranks, but what was accumulated before "
            "it is still each rank's own: reduce p.grad itself, all that it holds, after it was stored.", _earlier_own),
            parameters=ANYTHING),
        _in_part("gradients", _where_reached(Slip(
            "divided by passes", "The accumulated gradients are divided by the number of backward passes: that is up to the "
            "caller, who divides the loss. Divide by the number of ranks alone.", _divided_by_passes)),
            parameters=ANYTHING),
    ),
)
