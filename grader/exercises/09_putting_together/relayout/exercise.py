"""A checkpoint saved by the ranks of one mesh, loaded by a rank of another."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import single
from grader.exercises.shared.meshes import in_words, sizes_of
from grader.exercises.shared.model_states import State, drawn_state, of_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.models.shards import cut_dim


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    wanted = [((1, 2, 2), (1, 1, 4), 2, (0, 3)), ((2, 1, 2), (1, 3, 1), 3, (0, 1, 2)), ((1, 3, 1), (2, 2, 2), 5, (3, 4)),
              ((2, 2, 2), (2, 2, 2), 3, (6,)), ((1, 1, 1), (1, 1, 1), 1, (0,))]
    wanted += [((1, 1, 4), (3, 2, 1), 4, (3, 2)), ((2, 3, 2), (1, 2, 4), 4, (1, 6))] * grading
    cases = []
    for before, after, n_layers, ranks in wanted:
        old, new = sizes_of(before), sizes_of(after)
        whole = drawn_state(draw, n_layers)
        saved = [of_rank(whole, n_layers, old, rank) for rank in range(math.prod(before))]
        name = f"{in_words(old)} → {in_words(new)}, {n_layers} layer{'s' * (n_layers > 1)}, rank "
        cases += [single(f"{name}{rank}", saved=saved, old=old, new=new, n_layers=n_layers, rank=rank) for rank in ranks]
    return cases


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


def _loaded(inputs: dict[str, Any], join: Callable[[str, dict[str, Any]], Tensor] | None = None, mesh: str = "new") -> State:
    """This rank's state; mesh: whose layout it gets."""
    return of_rank(_whole(inputs, join), inputs["n_layers"], inputs[mesh], inputs["rank"] % math.prod(inputs[mesh].values()))


# ── slips ──


def _joined_along_rows(name: str, inputs: dict[str, Any]) -> Tensor:
    found = _holders(inputs, name)
    return found[0] if cut_dim(name) is None else torch.cat(found)


def _whole_ones_too(name: str, inputs: dict[str, Any]) -> Tensor:
    return torch.cat(_holders(inputs, name), cut_dim(name) or 0)


def _last_file_wins(name: str, inputs: dict[str, Any]) -> Tensor:
    return _holders(inputs, name, replicas=True)[-1]


def _replicas_joined(name: str, inputs: dict[str, Any]) -> Tensor:
    found = _holders(inputs, name, replicas=True)
    return found[0] if cut_dim(name) is None else torch.cat(found, cut_dim(name))


def _backwards(name: str, inputs: dict[str, Any]) -> Tensor:
    found = _holders(inputs, name)
    return found[0] if cut_dim(name) is None else torch.cat(found[::-1], cut_dim(name))


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
        _slip("joined along rows", lambda inputs: _loaded(inputs, _joined_along_rows), "The pieces are cut along "
              "cut_dim(name), but joined along dim 0: join them along the same dim, or out and down have another shape.",
              _cuts("old", "tp")),
        _slip("whole ones joined", lambda inputs: _loaded(inputs, _whole_ones_too), "What is whole on every rank of "
              "tp (cut_dim gives None: embedding, norms, the biases of out and down) is joined as if it were in pieces: "
              "take one rank's.", _cuts("old", "tp")),
        _slip("old layout", lambda inputs: _loaded(inputs, mesh="old"), "This is what the same rank had in the *old* "
              "layout: join the whole model from the files of one replica, and cut it for the new layout."),
        _slip("not cut", _whole, "This is the whole model, put together: now cut it for this rank of the new layout."),
        _slip("last file wins", lambda inputs: _loaded(inputs, _last_file_wins), "Each weight is what the last file "
              "says, as if it had all of it: the pieces of the ranks along tp must be joined.", _cuts("old", "tp")),
        _slip("replicas joined", lambda inputs: _loaded(inputs, _replicas_joined), "Copies are joined as if they were "
              "pieces: every replica along dp has saved the same. Take one of them.", _cuts("old", "dp")),
        _slip("pieces in another order", lambda inputs: _loaded(inputs, _backwards), "The pieces are joined in another "
              "order than the ranks' along tp.", _cuts("old", "tp")),
        _slip("tied head lost", lambda inputs: {name: x for name, x in _loaded(inputs).items() if name != "head.weight"},
              "The head is missing: it is tied to the embedding, but the last stage has it under its own name."),
        _slip("type not kept", lambda inputs: {name: x.float() for name, x in _loaded(inputs).items()}, "The numbers are "
              "right, their type is not: keep each tensor's own."),
    ),
)
