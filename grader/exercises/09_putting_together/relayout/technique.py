"""How relayout must be done, and how it can fail."""

from typing import Any

from grader.calling.meshes import HEAD
from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks
from utils.models.shards import cut_dim


def _of_old_layout(look: Look, rank: int, found: Any, right: Any) -> bool:
    """The names of an old stage, or pieces as large as in an old file."""
    saved = look.case.inputs[rank]["saved"]
    if found.keys() != right.keys():
        return any(found.keys() == state.keys() for state in saved)
    wrong = _of_another_size(found, right)
    return bool(wrong) and all(
        any(name in state and state[name].shape == found[name].shape for state in saved) for name in wrong)


def _same_layout(look: Look) -> bool:
    return look.case.inputs[0]["old"] == look.case.inputs[0]["new"]


def _of_another_size(found: Any, right: Any) -> list[str]:
    return [name for name, x in right.items() if found[name].shape != x.shape]


def _head_missing(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() == right.keys() - {HEAD} < right.keys()


def _names_missing(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() < right.keys()


def _longer_where_whole(look: Look, rank: int, found: Any, right: Any) -> bool:
    wrong = _of_another_size(found, right) if found.keys() == right.keys() else []
    return bool(wrong) and all(cut_dim(name) is None and found[name].numel() > right[name].numel() for name in wrong)


def _other_numbers(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() == right.keys() and all(
        (found[name].shape, found[name].dtype) == (x.shape, x.dtype) for name, x in right.items())


TECHNIQUE = Technique(
    demands=(
        only_calls(id="communicates"),
        inputs_kept(gate=True),
    ),
    symptoms=(
        raised("KeyError", "not in this file"),
    ),
    fallbacks=(
        Symptom("old layout", wrong_ranks(_of_old_layout), refuted=_same_layout),
        Symptom("tied head lost", wrong_ranks(_head_missing)),
        Symptom("names missing", wrong_ranks(_names_missing)),
        Symptom("whole ones joined", wrong_ranks(_longer_where_whole)),
        Symptom("pieces in another order", wrong_ranks(_other_numbers)),
    ),
)
