"""What one rank of a mesh has of a whole model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import single
from grader.exercises.shared.meshes import in_words, place_of, sizes_of
from grader.exercises.shared.model_states import Pieces, Sizes, State, drawn_state, of_rank, own_piece
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.models.mesh_stage import stage_of
from utils.models.shards import cut_dim, piece


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    wanted = [((1, 1, 4), 2, (0, 3)), ((1, 3, 1), 5, (0, 1, 2)), ((1, 2, 2), 3, (1,)), ((2, 2, 2), 3, (3, 6)),
              ((1, 1, 1), 1, (0,))]
    wanted += [((3, 2, 1), 4, (2, 3)), ((1, 2, 4), 4, (1, 6))] * grading
    cases = []
    for shape, n_layers, ranks in wanted:
        sizes, whole = sizes_of(shape), drawn_state(draw, n_layers)
        name = f"{in_words(sizes)}, {n_layers} layer{'s' * (n_layers > 1)}, rank "
        cases += [single(f"{name}{rank}", whole=whole, sizes=sizes, n_layers=n_layers, rank=rank) for rank in ranks]
    return cases


def _own(inputs: dict[str, Any], own: Pieces = own_piece, rank: int | None = None) -> State:
    return of_rank(inputs["whole"], inputs["n_layers"], inputs["sizes"], inputs["rank"] if rank is None else rank, own)


# ── slips ──


def _along_rows(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    return x if cut_dim(name) is None else piece(x, place, sizes["tp"])


def _zero_is_no(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    return own_piece(name, x, sizes, place) if cut_dim(name) else x


def _biases_too(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    """Every parameter of the four cut layers is cut, the biases of out and down as well."""
    cut = cut_dim(name) if not name.endswith(("out.bias", "down.bias")) else 0
    return x if cut is None else piece(x, place, sizes["tp"], cut)


def _thirds_of_qkv(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    thirds = x.chunk(3) if ".qkv." in name else [x]
    return torch.cat([own_piece(name, third, sizes, place) for third in thirds])


def _another_place(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    return own_piece(name, x, sizes, (place + 1) % sizes["tp"])


def _other_numbering(inputs: dict[str, Any]) -> int:
    """The rank that stands there if the first axis varies fastest."""
    rank, place, number = inputs["rank"], {}, 0
    for axis, size in inputs["sizes"].items():
        rank, place[axis] = divmod(rank, size)
    for axis, size in inputs["sizes"].items():
        number = number * size + place[axis]
    return number


def _every_stage(inputs: dict[str, Any]) -> State:
    place = place_of(inputs["sizes"], inputs["rank"])["tp"]
    return {name: own_piece(name, x, inputs["sizes"], place) for name, x in inputs["whole"].items()}


def _stage_by_number(inputs: dict[str, Any]) -> State:
    sizes, place = inputs["sizes"], place_of(inputs["sizes"], inputs["rank"])["tp"]
    return {name: own_piece(name, x, sizes, place) for name, x in inputs["whole"].items()
            if stage_of(name, inputs["n_layers"], sizes["pp"]) == inputs["rank"] % sizes["pp"]}


def _several(axis: str) -> Callable[[Case], bool]:
    return lambda case: case.inputs[0]["sizes"][axis] > 1


def _slip(id: str, wrong: Callable[[dict[str, Any]], State], hint: str,
          shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    return Slip(id, hint, lambda case, rank, right: wrong(case.inputs[rank]), shows=shows)


EXERCISE = Exercise(
    title="Cut the model",
    parameters=("whole", "sizes", "n_layers", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: _own(case.inputs[rank])),
    points={VALUES: 2},
    slips=(
        _slip("always along rows", lambda inputs: _own(inputs, _along_rows), "All that is cut is cut along dim 0. Of out "
              "and down a rank has columns: cut_dim(name) says which dim.", _several("tp")),
        _slip("not cut", lambda inputs: _own(inputs, lambda name, x, sizes, place: x), "Weights are whole: of those that "
              "are cut, this rank has the piece of its place along tp.", _several("tp")),
        _slip("dim 0 not cut", lambda inputs: _own(inputs, _zero_is_no), "qkv and up are whole. cut_dim(name) is 0 for "
              "them, and 0 counts as false in an if: ask whether it is None.", _several("tp")),
        _slip("biases cut", lambda inputs: _own(inputs, _biases_too), "The biases of out and down are cut. They are "
              "whole: they belong to the sum over ranks. cut_dim(name) is None for them.", _several("tp")),
        _slip("thirds of qkv", lambda inputs: _own(inputs, _thirds_of_qkv), "Of qkv these are pieces of its three thirds, "
              "as in unit 06. Here its rows are ordered by head, so a rank has one piece of them.", _several("tp")),
        _slip("another piece", lambda inputs: _own(inputs, _another_place), "The pieces are those of another place along "
              "tp: a rank's place is its number modulo tp.", _several("tp")),
        _slip("every stage's", _every_stage, "Layers of other stages are there too: stage_of(name, n_layers, n_stages) says "
              "whose they are.", _several("pp")),
        _slip("first axis fastest", lambda inputs: _own(inputs, rank=_other_numbering(inputs)), "This is another rank's "
              "part: along the mesh the *last* axis varies fastest."),
        _slip("stage by the rank's number", _stage_by_number, "The stage is another one's: neighbouring numbers are "
              "neighbours along tp. A rank's stage is its number // tp, modulo pp.", _several("tp")),
        _slip("tied head lost", lambda inputs: {name: x for name, x in _own(inputs).items() if name != "head.weight"},
              "The head is missing: it is tied to the embedding, but the last stage has it under its own name."),
        _slip("type not kept", lambda inputs: {name: x.float() for name, x in _own(inputs).items()}, "The numbers are "
              "right, their type is not: keep each tensor's own."),
    ),
)
