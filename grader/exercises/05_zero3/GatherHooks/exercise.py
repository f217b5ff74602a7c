"""GatherHooks: the layers of a chain, each whole only while it computes, by hooks that wait for every collective."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.training import parameters
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE, own_gradients, train
from grader.exercises.shared.training_cases import SEEDS, weighed_case, with_batches
from grader.exercises.shared.zero_cases import slices_on
from grader.exercises.technique.models import model_of
from grader.exercises.technique.sharding import ROWS
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.layers import layers_of

Layers = Callable[[nn.Module], Iterable[tuple[nn.Module, list[nn.Parameter]]]]
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


def _each_module(model: nn.Module) -> Iterable[tuple[nn.Module, list[nn.Parameter]]]:
    """A wrong layers_of: every module that has parameters of its own, inside a layer too."""
    own = ((part, list(part.parameters(recurse=False))) for part in model.modules())
    return ((part, parameters) for part, parameters in own if parameters)


def _pieces(case: Case, rank: int, values: dict[str, Tensor], layers: Layers = layers_of) -> dict[str, Tensor | None]:
    """Name → the part of the parameter's value that lies on `rank`, None where nothing does."""
    model, own = model_of(case, rank), {}
    names = {p: name for name, p in model.named_parameters()}
    for _, of_layer in layers(model):
        of_names = [names[p] for p in of_layer]
        parts = slices_on(case, rank, [values[name] for name in of_names])
        own |= {name: part if part.numel() else None for name, part in zip(of_names, parts, strict=True)}
    return {name: own[name] for name in names.values()}


def _plain(case: Case, rank: int, factor: float = 1.0, layers: Layers = layers_of) -> dict[str, Any]:
    trained = train(case, rank, factor=factor)
    return {part: _pieces(case, rank, trained[part], layers) for part in ("gradients", "parameters")}


def _of_passes(case: Case, rank: int, members: Sequence[int], first: int = 0) -> dict[str, Any]:
    """The pieces of the first step's gradients, over these members' rows alone, and from a pass on."""
    inputs, sums = case.inputs[rank], dict[str, Tensor]()
    for number in range(first, inputs["micro"]):
        x, y = (torch.cat([case.inputs[member][part][number] for member in members]) for part in ("xs", "ys"))
        sums = {name: sums.get(name, 0) + gradient / inputs["micro"]
                for name, gradient in own_gradients(case, rank, x, y).items()}
    return {"gradients": _pieces(case, rank, sums), "parameters": ANYTHING}


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
    slips=(
        Slip("sum for mean", "The gradients are n times too large: divide by the number of ranks.",
             lambda case, r, right: _plain(case, r, factor=case.group_size(r))),
        Slip("each module a layer", "Modules inside a layer have flat buffers of their own: a layer of layers_of(module) is "
                                    "one ShardedLayer, whatever it is made of, so go over those pairs, not over modules().",
             lambda case, r, right: _plain(case, r, layers=_each_module)),
        Slip("last pass only", "Of two passes only the last one counts: finish() adds to the p.grad that is there, so leave "
                               "it alone between the passes.",
             lambda case, r, right: _of_passes(case, r, case.members(r), first=case.inputs[r]["micro"] - 1)),
        Slip("own rows", "Each rank has the gradient of its own rows: reduce() must average the whole gradients over the "
                         "ranks before the layer is freed.", lambda case, r, right: _of_passes(case, r, [r])),
        Slip("nothing trained", "The parameters at the end are those of the start: after loss.backward() every p.grad must "
                                "hold this rank's slice of the gradient.",
             lambda case, r, right: {"gradients": ANYTHING, "parameters": _pieces(case, r, parameters(model_of(case, r)))}),
    ),
)
