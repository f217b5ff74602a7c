"""The norm of all gradients of a model on a mesh: each counted once, whoever has it."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from grader.calling.meshes import drawn_gradients, make_model, parts_on
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.meshes import in_words, lines_of, sizes_of
from grader.judging.exercise import Case, Draw, Exercise

MODEL = {"length": 3, "dim": 4, "layers": 3, "heads": 4}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    shapes = [(1, 1, 1), (1, 1, 4), (1, 3, 1), (2, 2, 2)] + [(3, 1, 2), (1, 2, 1), (2, 3, 1)] * grading
    return [_case(draw, shape) for shape in shapes]


def _case(draw: Draw, shape: tuple[int, int, int]) -> Case:
    sizes = sizes_of(shape)
    inputs = {"model": MODEL | {"seed": draw.seed()}, "seed": draw.seed(), "sizes": sizes, "lines": lines_of(sizes)}
    return Case(in_words(sizes), (inputs,) * math.prod(shape))


def _right(case: Case, rank: int) -> dict[str, Any]:
    inputs = case.inputs[rank]
    whole = drawn_gradients(make_model(inputs["model"]), inputs["seed"])
    own = parts_on(rank, whole, inputs["lines"], MODEL["layers"])
    return {"norm": torch.nn.utils.get_total_norm(whole.values()), "gradients": own}


EXERCISE = Exercise(
    title="One norm for all",
    parameters=("stage", "mesh"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
)
