"""Broadcast a model: every rank starts from the first one's parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.calling.training import REPLACED
from grader.calling.zoo import build
from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import model_of
from grader.exercises.shared.training_cases import SEEDS, model_cases
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

MODELS = ("mlp", "buffered", "tied", "frozen", "gpt", "mixed")


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Each rank draws its own numbers."""
    return model_cases(draw, grading, MODELS, lambda model, n, seed: [
        {"model": model, "seed": seed if r == 0 else draw.integer(0, SEEDS)} for r in range(n)])


def _bytes(look: Look, rank: int) -> float:
    model = model_of(look.case, rank)
    total = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    return bytes_sent_per_rank("broadcast", total, group_size(look, rank))


def _kept(look: Look) -> tuple[bool, str]:
    replaced = [span for span in look.evidence.trace.spans if span.name == REPLACED]
    return not replaced, f"rank {replaced[0].rank}: {replaced[0].facts['parameter']} is another tensor" if replaced else ""


def wrong_names(which: Callable[[Look, int], set[str]]) -> Callable[[Look], bool]:
    """What differs on every wrong rank is one of, and all of, these names (so far as their values differ at all)."""

    def test(look: Look, rank: int, found: dict[str, Any], expected: dict[str, Any]) -> bool:
        wrong = {name for name in expected if not same(found.get(name), expected[name])}
        return bool(wrong) and wrong <= which(look, rank)

    return wrong_ranks(test)


def buffer_names(look: Look, rank: int) -> set[str]:
    return {name for name, _ in model_of(look.case, rank).named_buffers()}


def _frozen(look: Look, rank: int) -> set[str]:
    return {name for name, p in model_of(look.case, rank).named_parameters() if not p.requires_grad}


def _parameters(look: Look, rank: int) -> set[str]:
    return {name for name, _ in model_of(look.case, rank).named_parameters(remove_duplicate=False)}


def _own_state(look: Look, rank: int) -> dict[str, Any]:
    return dict(build(look.case.inputs[rank]["model"], look.case.inputs[rank]["seed"]).state_dict())


def _of_another(look: Look, rank: int, found: dict[str, Any], _) -> bool:
    return any(same(found, _own_state(look, member)) for member in look.case.members(rank)[1:] if member != rank)


def _own(look: Look, rank: int, found: dict[str, Any], _) -> bool:
    """Of a model with buffers: without, it could be the parameters alone that were forgotten."""
    return bool(buffer_names(look, rank)) and same(found, _own_state(look, rank))


def _not_first(look: Look) -> bool:
    return wrong_ranks(lambda look, r, found, _: same(found, _own_state(look, r)) or _of_another(look, r, found, _))(
        look) and any(_of_another(look, r, found, e) for r, found, e in look.pairs() if not same(found, e))


EXERCISE = Exercise(
    title="All start from one model",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: dict(model_of(case, r).state_dict())),
    trains=True,
    technique=Technique(
        demands=(
        only_calls("broadcast", hint="dist.broadcast, from the group's rank 0, is all that this exercise needs."),
        Demand(REPLACED, "the parameters stay the same objects",
               "The model has new Parameter objects now: an optimizer made before still holds, and updates, the old ones. "
               "Broadcast into the tensors that are there.", _kept),
        bytes_sent(_bytes, "every parameter and buffer once",
                   "All models are equal, but more was sent than the model has: each parameter and each buffer once.",
                   id="sent twice"),
    ),
        symptoms=(
        group_ignored("Right for the whole world, wrong in a group: the source is the group's rank 0, group_src=0; "
                      "src=0 is rank 0 of the world, which need not be in the group."),
        Symptom("buffers forgotten", "All parameters are equal, the buffers are not: model.buffers() (running means, "
                                     "masks, counts) take part in the forward pass too.", wrong_names(buffer_names)),
        Symptom("frozen forgotten", "Parameters that are not trained still differ between ranks: they take part in the "
                                    "forward pass, so broadcast them too.", wrong_names(_frozen)),
        Symptom("another rank's model", "Ranks hold the model of another rank than the group's first: the source is "
                                        "group_src=0.", _not_first),
        Symptom("nothing sent", "Each rank still has numbers of its own: broadcast works in place, on p.data (or under "
                                "torch.no_grad()).", wrong_ranks(_own)),
        Symptom("parameters forgotten", "The buffers are equal, the parameters are not: broadcast model.parameters() as "
                                        "well.", wrong_names(_parameters)),
    ),
    ),
)
