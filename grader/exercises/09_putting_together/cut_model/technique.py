"""How cut_model must be done, and how it can fail."""

from typing import Any

from grader.calling.meshes import HEAD
from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.demands import inputs_kept
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import wrong_ranks


def _head_missing(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() == right.keys() - {HEAD} < right.keys()


def _names_missing(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() < right.keys()


def _renamed(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() != right.keys() and same([*found.values()], [*right.values()])


def _another_stage(look: Look, rank: int, found: Any, right: Any) -> bool:
    return not found.keys() <= right.keys() and not right.keys() <= found.keys()


def _other_shapes(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() == right.keys() and any(found[name].shape != right[name].shape for name in right)


def _other_numbers(look: Look, rank: int, found: Any, right: Any) -> bool:
    return found.keys() == right.keys() and all(
        (found[name].shape, found[name].dtype) == (x.shape, x.dtype) for name, x in right.items())


TECHNIQUE = arithmetic(
    demands=(inputs_kept(gate=True),),
    fallbacks=(
        Symptom("tied head lost", wrong_ranks(_head_missing)),
        Symptom("names missing", wrong_ranks(_names_missing)),
        Symptom("renamed", wrong_ranks(_renamed)),
        Symptom("another stage's", wrong_ranks(_another_stage)),
        Symptom("pieces of another size", wrong_ranks(_other_shapes)),
        Symptom("pieces of another rank", wrong_ranks(_other_numbers)),
    ),
)
