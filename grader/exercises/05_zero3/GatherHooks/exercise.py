"""GatherHooks: the layers of a chain, each whole only while it computes, by hooks that wait for every collective."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE, train
from grader.exercises.shared.training_cases import SEEDS, weighed_case, with_batches
from grader.exercises.shared.zero_cases import slices_on
from grader.exercises.technique.models import model_of
from grader.exercises.technique.sharding import ROWS
from grader.judging.exercise import Case, Draw, Exercise
from utils.models.layers import layers_of

STEPS, LR = 2, 0.05
IN_WORDS = {"mlp": "3 layers", "deep": "13 layers", "crossed": "a layer of two modules",
            "two typed": "a layer of two dtypes"}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """On 3 ranks two passes add up before each step."""

    def inputs(n: int, model: str, micro: int = 1) -> list[dict[str, Any]]:
        make = with_batches(draw, lambda n: ROWS, STEPS * micro, micro=micro, lr=LR, optimizer="SGD")
        return make(model, n, draw.integer(0, SEEDS))

    sizes = [(1, "mlp", 1), (2, "deep", 1), (3, "crossed", 2), (2, "two typed", 1), *([(4, "mlp", 1)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {IN_WORDS[model]}", tuple(inputs(n, model, micro))) for n, model, micro in sizes]
    weighed = weighed_case(lambda model, n, seed: inputs(n, model), grading)
    return [*cases, group_case(lambda n: inputs(n, "mlp"), IN_WORDS["mlp"]), *weighed]


def _pieces(case: Case, rank: int, values: dict[str, Tensor]) -> dict[str, Tensor | None]:
    """Name → the part of the parameter's value that lies on `rank`, None where nothing does."""
    model, own = model_of(case, rank), {}
    names = {p: name for name, p in model.named_parameters()}
    for _, of_layer in layers_of(model):
        of_names = [names[p] for p in of_layer]
        parts = slices_on(case, rank, [values[name] for name in of_names])
        own |= {name: part if part.numel() else None for name, part in zip(of_names, parts, strict=True)}
    return {name: own[name] for name in names.values()}


def _plain(case: Case, rank: int) -> dict[str, Any]:
    trained = train(case, rank)
    return {part: _pieces(case, rank, trained[part]) for part in ("gradients", "parameters")}


EXERCISE = Exercise(
    title="Hooks that gather, free and reduce",
    parameters=("module", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.fsdp",),
    tolerance=TOLERANCE,
    points={"values": 2, "technique": 2},
)
