"""A checkpoint saved by the ranks of one mesh, loaded by a rank of another."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import single
from grader.exercises.shared.meshes import in_words, place_of, sizes_of
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.models.mesh_stage import stage_of
from utils.models.shards import cut_dim, piece

WIDTH, POSITIONS, WORDS = 8, 3, 5
State = dict[str, Tensor]
Sizes = dict[str, int]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    wanted = [((1, 2, 2), (1, 1, 4), 2, (0, 3)), ((2, 1, 2), (1, 3, 1), 3, (0, 1, 2)), ((1, 3, 1), (2, 2, 2), 5, (3, 4)),
              ((2, 2, 2), (2, 2, 2), 3, (6,)), ((1, 1, 1), (1, 1, 1), 1, (0,))]
    wanted += [((1, 1, 4), (3, 2, 1), 4, (3, 2)), ((2, 3, 2), (1, 2, 4), 4, (1, 6))] * grading
    cases = []
    for before, after, n_layers, ranks in wanted:
        old, new = sizes_of(before), sizes_of(after)
        whole = _model(draw, n_layers)
        saved = [_cut(whole, n_layers, old, rank) for rank in range(math.prod(before))]
        name = f"{in_words(old)} → {in_words(new)}, {n_layers} layer{'s' * (n_layers > 1)}, rank "
        cases += [single(f"{name}{rank}", saved=saved, old=old, new=new, n_layers=n_layers, rank=rank) for rank in ranks]
    return cases


def _model(draw: Draw, n_layers: int) -> State:
    """A GPT's parameters by name, the head's the embedding's; small ones, and one layer's in float64."""
    d, state = WIDTH, {"embedding.weight": draw.tensor(WORDS, WIDTH), "positions.weight": draw.tensor(POSITIONS, WIDTH)}
    shapes = {"attention_norm": (d,), "qkv": (3 * d, d), "out": (d, d), "mlp_norm": (d,), "up": (4 * d, d),
              "down": (d, 4 * d)}
    for layer in range(n_layers):
        for part, shape in shapes.items():
            dtype = torch.float64 if layer == 0 else torch.float32
            state |= {f"blocks.{layer}.{part}.weight": draw.tensor(*shape, dtype=dtype),
                      f"blocks.{layer}.{part}.bias": draw.tensor(shape[0], dtype=dtype)}
    return state | {"norm.weight": draw.tensor(d), "norm.bias": draw.tensor(d), "head.weight": state["embedding.weight"]}


Pieces = Callable[[str, Tensor, Sizes, int], Tensor]  # (name, whole, sizes, place along tp) -> what a rank has of it


def _own(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    return x if cut_dim(name) is None else piece(x, place, sizes["tp"], cut_dim(name))


def _cut(whole: State, n_layers: int, sizes: Sizes, rank: int, own: Pieces = _own) -> State:
    """What a rank of a mesh has of a model."""
    place = place_of(sizes, rank)
    return {name: own(name, x, sizes, place["tp"]) for name, x in whole.items()
            if stage_of(name, n_layers, sizes["pp"]) == place["pp"]}


def _holders(inputs: dict[str, Any], name: str, replicas: bool = False) -> list[Tensor]:
    """What the ranks of the first replica (or of all) have of a parameter, in order."""
    ranks = len(inputs["saved"]) if replicas else inputs["old"]["pp"] * inputs["old"]["tp"]
    return [state[name] for state in inputs["saved"][:ranks] if name in state]


def _names(inputs: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for state in inputs["saved"] for name in state))


def _whole(inputs: dict[str, Any], join: Callable[[str, dict[str, Any]], Tensor] | None = None) -> State:
    """Each parameter, put together by join(name, inputs)."""
    return {name: (join or _joined)(name, inputs) for name in _names(inputs)}


def _joined(name: str, inputs: dict[str, Any]) -> Tensor:
    found = _holders(inputs, name)
    return found[0] if cut_dim(name) is None else torch.cat(found, cut_dim(name))


def _loaded(inputs: dict[str, Any], own: Pieces = _own, join: Callable[[str, dict[str, Any]], Tensor] | None = None,
            **other: Any) -> State:
    """This rank's state; `other`: inputs that are misread."""
    inputs = inputs | other
    return _cut(_whole(inputs, join), inputs["n_layers"], inputs["new"], inputs["rank"], own)


# ── slips ──


def _along_rows(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    return x if cut_dim(name) is None else piece(x, place, sizes["tp"])


def _joined_along_rows(name: str, inputs: dict[str, Any]) -> Tensor:
    found = _holders(inputs, name)
    return found[0] if cut_dim(name) is None else torch.cat(found)


def _whole_ones_too(name: str, inputs: dict[str, Any]) -> Tensor:
    return torch.cat(_holders(inputs, name), cut_dim(name) or 0)


def _biases_too(name: str, x: Tensor, sizes: Sizes, place: int) -> Tensor:
    """Every parameter of the four cut layers is cut, the biases of out and down as well."""
    cut = cut_dim(name) if not name.endswith(("out.bias", "down.bias")) else 0
    return x if cut is None else piece(x, place, sizes["tp"], cut)


def _last_file_wins(name: str, inputs: dict[str, Any]) -> Tensor:
    return _holders(inputs, name, replicas=True)[-1]


def _replicas_joined(name: str, inputs: dict[str, Any]) -> Tensor:
    found = _holders(inputs, name, replicas=True)
    return found[0] if cut_dim(name) is None else torch.cat(found, cut_dim(name))


def _backwards(name: str, inputs: dict[str, Any]) -> Tensor:
    found = _holders(inputs, name)
    return found[0] if cut_dim(name) is None else torch.cat(found[::-1], cut_dim(name))


def _other_numbering(inputs: dict[str, Any]) -> int:
    """The rank that stands there if the first axis varies fastest."""
    reversed_place, rank = {}, inputs["rank"]
    for axis, size in inputs["new"].items():
        rank, reversed_place[axis] = divmod(rank, size)
    number = 0
    for axis, size in inputs["new"].items():
        number = number * size + reversed_place[axis]
    return number


def _old_stages(inputs: dict[str, Any]) -> State:
    n_stages = inputs["old"]["pp"]
    stage, place = inputs["rank"] // inputs["new"]["tp"] % n_stages, inputs["rank"] % inputs["new"]["tp"]
    return {name: _own(name, x, inputs["new"], place) for name, x in _whole(inputs).items()
            if stage_of(name, inputs["n_layers"], n_stages) == stage}


def _cuts(mesh: str, axis: str, least: int = 2) -> Callable[[Case], bool]:
    return lambda case: case.inputs[0][mesh][axis] >= least


def _slip(id: str, wrong: Callable[[dict[str, Any]], State], hint: str,
          shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    return Slip(id, hint, lambda case, rank, right: wrong(case.inputs[rank]), shows=shows)


EXERCISE = Exercise(
    title="From one layout to another",
    parameters=("saved", "old", "new", "n_layers", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: _loaded(case.inputs[rank])),
    points={VALUES: 4},
    slips=(
        _slip("old file", lambda inputs: inputs["saved"][inputs["rank"]], "Returned is the file that the same rank saved: "
              "the layout has changed.", lambda case: case.inputs[0]["rank"] < len(case.inputs[0]["saved"])),
        _slip("always along rows", lambda inputs: _loaded(inputs, _along_rows, _joined_along_rows), "All that is cut is "
              "joined and cut along dim 0. Of out and down a rank has columns: cut_dim(name) says which dim."),
        _slip("not cut", lambda inputs: _loaded(inputs, lambda name, x, sizes, place: x), "Weights are whole: of those that "
              "are cut, this rank has the piece of its place along tp.", _cuts("new", "tp")),
        _slip("biases cut", lambda inputs: _loaded(inputs, _biases_too), "The biases of out and down are cut. They are "
              "whole: they belong to the sum over ranks. cut_dim(name) is None for them.", _cuts("new", "tp")),
        _slip("joined along rows", lambda inputs: _loaded(inputs, join=_joined_along_rows), "The pieces are cut along "
              "cut_dim(name), but joined along dim 0: join them along the same dim, or out and down have another shape.",
              _cuts("old", "tp")),
        _slip("whole ones joined", lambda inputs: _loaded(inputs, join=_whole_ones_too), "What is whole on every rank of "
              "tp (cut_dim gives None: embedding, norms, the biases of out and down) is joined as if it were in pieces: "
              "take one rank's.", _cuts("old", "tp")),
        _slip("cut for the old tp", lambda inputs: _loaded(inputs, lambda name, x, sizes, place: _own(
            name, x, inputs["old"], place)), "What is cut is cut into as many pieces as the *old* layout has along tp: this "
              "rank's place is one of the new layout's.",
              lambda case: case.inputs[0]["rank"] % case.inputs[0]["new"]["tp"] < case.inputs[0]["old"]["tp"]
              != case.inputs[0]["new"]["tp"]),
        _slip("last file wins", lambda inputs: _loaded(inputs, join=_last_file_wins), "Each weight is what the last file "
              "says, as if it had all of it: the pieces of the ranks along tp must be joined.", _cuts("old", "tp")),
        _slip("replicas joined", lambda inputs: _loaded(inputs, join=_replicas_joined), "Copies are joined as if they were "
              "pieces: every replica along dp has saved the same. Take one of them.", _cuts("old", "dp")),
        _slip("pieces in another order", lambda inputs: _loaded(inputs, join=_backwards), "The pieces are joined in another "
              "order than the ranks' along tp.", _cuts("old", "tp")),
        _slip("every "
              "stage's", lambda inputs: {name: _own(name, x, inputs["new"], place_of(inputs["new"], inputs["rank"])["tp"])
                                               for name, x in _whole(inputs).items()},
              "Layers of other stages are there too: stage_of(name, n_layers, n_stages) says whose they are.",
              _cuts("new", "pp")),
        _slip("old stages", _old_stages, "The layers are those of a stage in the *old* layout: the new one has another "
              "number of stages.",
              lambda case: case.inputs[0]["old"]["pp"] != case.inputs[0]["new"]["pp"]),
        _slip("first axis fastest", lambda inputs: _loaded(inputs, rank=_other_numbering(inputs)), "This is another rank's "
              "part: along the new mesh the *last* axis varies fastest."),
        _slip("tied head lost", lambda inputs: {name: x for name, x in _loaded(inputs).items() if name != "head.weight"},
              "The head is missing: it is tied to the embedding, but the last stage has it under its own name."),
        _slip("type not kept", lambda inputs: {name: x.float() for name, x in _loaded(inputs).items()}, "The numbers are "
              "right, their type is not: keep each tensor's own."),
    ),
)
