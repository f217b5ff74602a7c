"""Average the gradients: all of them in one flat all-reduce for each type of number."""

from collections import Counter
from typing import Any

import torch

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.one_process import OF_A_MEAN, REPLICAS, batch, mean_gradients, own_gradients
from grader.exercises.shared.training_cases import WRONGLY_SCALED, model_cases
from grader.exercises.technique.models import given_model
from grader.judging.exercise import Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> list[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict]:
        pairs = [batch(draw, model, 2) for _ in range(n)]
        return [{"model": model, "seed": seed, "x": x, "y": y} for x, y in pairs]

    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "mixed", "gpt", "halves"), inputs)


def _zeros_for_none(case: Case, rank: int, right: list) -> dict[str, Any]:
    return {name: torch.zeros_like(p) if right[rank][name] is None else right[rank][name]
            for name, p in given_model(case, rank).named_parameters()}


def _divided_by_their_count(case: Case, rank: int, right: list) -> dict[str, Any]:
    """The sum over ranks, divided by how many gradients of this dtype there are."""
    counts = Counter(gradient.dtype for gradient in right[rank].values() if gradient is not None)
    return {name: gradient if gradient is None else gradient * case.group_size(rank) / counts[gradient.dtype]
            for name, gradient in right[rank].items()}


EXERCISE = Exercise(
    title="One all-reduce for all gradients",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(lambda case, r: mean_gradients(
        case, r, list(zip(case.peers_inputs(r, "x"), case.peers_inputs(r, "y"), strict=True)))),
    trains=True,
    forbidden=REPLICAS,
    tolerance=OF_A_MEAN,
    slips=(
        *WRONGLY_SCALED,
        Slip("divided by their count", "You divide by how many gradients there are (len of the list): the mean is over "
                                       "ranks, so divide by dist.get_world_size(group).", _divided_by_their_count),
        Slip("own gradients", "Each rank still has the gradients of its own rows: copy the pieces of the flat tensor back "
                              "into p.grad (p.grad.copy_(piece)).",
             lambda case, r, right: own_gradients(case, r, case.inputs[r]["x"], case.inputs[r]["y"])),
        Slip("zeros for none", "A parameter that had no gradient has zeros now: AdamW would decay it. Leave None as it is.",
             _zeros_for_none),
    ),
)
