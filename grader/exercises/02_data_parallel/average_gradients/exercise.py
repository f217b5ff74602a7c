"""Average the gradients: all of them in one flat all-reduce for each type of number."""

from collections.abc import Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_group
from grader.exercises.shared.gradient_slips import divided_twice, sum_for_mean
from grader.exercises.shared.one_process import TOLERANCE, batch, mean_gradients, own_gradients
from grader.exercises.shared.training_cases import model_cases
from grader.exercises.technique.models import given_model
from grader.judging.exercise import Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(model: str, n: int, seed: int) -> list[dict]:
        pairs = [batch(draw, model, 2) for _ in range(n)]
        return [{"model": model, "seed": seed, "x": x, "y": y} for x, y in pairs]

    return model_cases(draw, grading, ("mlp", "tied", "frozen", "unused", "mixed", "gpt"), inputs)


def _mean(case: Case, rank: int) -> dict[str, Any]:
    return mean_gradients(case, rank, list(zip(case.peers_inputs(rank, "x"), case.peers_inputs(rank, "y"), strict=True)))


def _zeros_for_none(case: Case, rank: int, right: list) -> dict[str, Any]:
    return {name: torch.zeros_like(p) if right[rank][name] is None else right[rank][name]
            for name, p in given_model(case, rank).named_parameters()}


EXERCISE = Exercise(
    title="One all-reduce for all gradients",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_group(_mean),
    trains=True,
    tolerance=TOLERANCE,
    slips=(
        sum_for_mean(),
        divided_twice(),
        Slip("own gradients", "Each rank still has the gradients of its own rows: copy the pieces of the flat tensor back "
                              "into p.grad (p.grad.copy_(piece)).",
             lambda case, r, right: own_gradients(case, r, case.inputs[r]["x"], case.inputs[r]["y"])),
        Slip("zeros for none", "A parameter that had no gradient has zeros now: AdamW would decay it. Leave None as it is.",
             _zeros_for_none),
    ),
)
