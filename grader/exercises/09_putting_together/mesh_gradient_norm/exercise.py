"""The norm of all gradients of a model on a mesh: each counted once, whoever has it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grader.calling.meshes import drawn_gradients, make_model, parts_on
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.meshes import in_words, lines_of, place_of, sizes_of
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.mesh_stage import stage_of
from utils.models.shards import cut_dim, piece

MODEL = {"length": 3, "dim": 4, "layers": 3, "heads": 4}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    shapes = [(1, 1, 1), (1, 1, 4), (1, 3, 1), (2, 2, 2)] + [(3, 1, 2), (1, 2, 1), (2, 3, 1)] * grading
    return [_case(draw, shape) for shape in shapes]


def _case(draw: Draw, shape: tuple[int, int, int]) -> Case:
    sizes = sizes_of(shape)
    inputs = {"model": MODEL | {"seed": draw.seed()}, "seed": draw.seed(), "sizes": sizes,
              "lines": lines_of(sizes)}
    return Case(in_words(sizes), (inputs,) * math.prod(shape))


def _whole(case: Case) -> dict[str, torch.Tensor]:
    inputs = case.inputs[0]
    return drawn_gradients(make_model(inputs["model"]), inputs["seed"])


def _right(case: Case, rank: int) -> dict[str, Any]:
    whole = _whole(case)
    own = parts_on(rank, whole, case.inputs[rank]["lines"], MODEL["layers"])
    return {"norm": torch.nn.utils.get_total_norm(whole.values()), "gradients": own}


# ── slips: sums of squares, put together in another way ──


@dataclass(frozen=True)
class Squares:
    """Of one stage: of its whole parameters, of those that are cut, of one rank's pieces of these, of the tied weight.

    norms: the norms of all parameters but the tied one, and of the pieces of those that are cut, added up. biases: of the
    whole ones, the biases of layers whose weight is cut.
    """

    whole: float
    cut: float
    own: float
    tied: float
    norms: float
    biases: float

    @property
    def once(self) -> float:
        return self.whole + self.cut


def _stages(case: Case, rank: int) -> list[Squares]:
    """Each stage's; `own` is that of the rank that stands where `rank` does along tp."""
    sizes, gradients = case.inputs[rank]["sizes"], _whole(case)
    tied = float(gradients.pop("embedding.weight").square().sum())
    n, place = sizes["tp"], place_of(sizes, rank)["tp"]
    found = []
    for stage in range(sizes["pp"]):
        mine = {name: g for name, g in gradients.items() if stage_of(name, MODEL["layers"], sizes["pp"]) == stage}
        cut = {name: g for name, g in mine.items() if cut_dim(name) is not None}
        squares = {name: float(g.square().sum()) for name, g in mine.items()}
        found.append(Squares(
            sum(squares[name] for name in mine.keys() - cut.keys()), sum(squares[name] for name in cut),
            sum(float(piece(g, place, n, cut_dim(name)).square().sum()) for name, g in cut.items()),
            tied if stage in (0, sizes["pp"] - 1) else 0.0,
            sum(math.sqrt(squares[name]) for name in mine.keys() - cut.keys())
            + sum(float(part.norm()) for name, g in cut.items() for part in g.chunk(n, cut_dim(name))),
            sum(squares[name] for name in mine.keys() - cut.keys() if name.replace(".bias", ".weight") in cut)))
    return found


def _tied(stages: list[Squares]) -> float:
    return stages[0].tied


Total = Callable[[list[Squares], dict[str, int], int], float]  # (stages, sizes, this rank's stage) → a norm


def _slip(id: str, axis: str, total: Total, hint: str, shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """Shows where there are several ranks along `axis`."""

    def wrong(case: Case, rank: int, right: list[Any]) -> dict[str, Any]:
        sizes = case.inputs[rank]["sizes"]
        norm = total(_stages(case, rank), sizes, place_of(sizes, rank)["pp"])
        return right[rank] | {"norm": torch.tensor(norm, dtype=torch.float64)}

    return Slip(id, hint, wrong, shows=lambda case: shows(case) and (not axis or case.inputs[0]["sizes"][axis] > 1))


def _root(*squares: float) -> float:
    return math.sqrt(sum(squares))


def _of_stage(stages: list[Squares], stage: int, ends: tuple[int, ...]) -> list[float]:
    return [stages[stage].once, stages[stage].tied * (stage in ends)]


EXERCISE = Exercise(
    title="One norm for all",
    parameters=("stage", "mesh"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
    slips=(
        _slip("whole ones counted on every rank", "tp", lambda stages, sizes, _: _root(
            _tied(stages) * sizes["tp"], *(s.whole * sizes["tp"] + s.cut for s in stages)),
            "Parameters that are not cut count once for each rank of tp: all of these have the same gradient. Sum along tp "
            "only what cut_dim says is cut."),
        _slip("biases taken for cut", "tp", lambda stages, sizes, _: _root(
            _tied(stages), *(s.once + (sizes["tp"] - 1) * s.biases for s in stages)),
            "The biases of out and down are whole on every rank of tp, though their weights are cut: they count once. "
            "cut_dim says so for each name."),
        _slip("pieces not summed", "tp", lambda stages, sizes, _: _root(_tied(stages), *(s.whole + s.own for s in stages)),
              "Of the cut parameters only this rank's pieces count: the other pieces are on the other ranks of tp, whose "
              "sums of squares must be added."),
        _slip("tied weight twice", "pp", lambda stages, sizes, _: _root(2 * _tied(stages), *(s.once for s in stages)),
              "The tied weight counts twice: it is one parameter of the model, though the first and the last stage both "
              "have a copy. Leave out one of them."),
        _slip("lost where one stage is both", "", lambda stages, sizes, _: _root(*(s.once for s in stages)),
              "With one stage the tied weight is lost: it is the last stage, and the first one as well, so there is no "
              "other that counts it.", shows=lambda case: case.inputs[0]["sizes"]["pp"] == 1),
        _slip("tied weight lost", "", lambda stages, sizes, _: _root(*(s.once for s in stages)),
              "The tied weight does not count at all: leave it out on the last stage, but not on the first."),
        _slip("own stage only", "pp", lambda stages, sizes, own: _root(*_of_stage(stages, own, (0, sizes["pp"] - 1))),
              "Each stage has the norm of its own gradients: add the sums of squares of all stages, along pp."),
        _slip("own stage only", "pp", lambda stages, sizes, own: _root(*_of_stage(stages, own, (0,))),
              "Each stage has the norm of its own gradients: add the sums of squares of all stages, along pp."),
        _slip("replicas counted", "dp", lambda stages, sizes, _: _root(sizes["dp"] * _tied(stages), *(
            sizes["dp"] * s.once for s in stages)),
            "Replicas count as if they were parts: after the average along dp all have the same gradients. Nothing is "
            "summed along dp."),
        _slip("no root", "", lambda stages, sizes, _: _root(_tied(stages), *(s.once for s in stages)) ** 2,
              "This is the sum of squares: the norm is its root."),
        _slip("norms added", "pp", lambda stages, sizes, _: sum(
            _root(*_of_stage(stages, stage, (0,))) for stage in range(sizes["pp"])),
            "The stages' norms are added: add their sums of squares, and take the root of the sum, once, at the end."),
        _slip("norms of parameters added", "", lambda stages, sizes, _: math.sqrt(_tied(stages)) + sum(
            s.norms for s in stages),
            "The parameters' norms are added: add the squares of all numbers, of all parameters, and take the root once, at "
            "the end."),
        _slip("pieces averaged", "tp", lambda stages, sizes, _: _root(_tied(stages), *(
            s.whole + s.cut / sizes["tp"] for s in stages)),
            "The cut parameters' squares are averaged along tp: pieces are parts of one tensor, so their squares add up."),
    ),
)
