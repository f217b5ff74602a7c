"""How make_mesh must be done, and how it can fail."""

import math
from collections.abc import Callable

from grader.calling.meshes import NO_GROUP, NOT_A_MEMBER
from grader.evidence.evidence import DEADLOCKED, RAISED
from grader.exercises.technique.meshes import numbers_left
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.exercises.technique.splitting import sizes_taken
from grader.judging.demands import inputs_kept, only_calls
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks
from utils.trace.trace import Call


def _made(look: Look, rank: int) -> list[Call]:
    """The groups that a rank made by a line of its own."""
    return [call for call in look.evidence.trace.of(rank, "new_group") if call.source is not None]


def _not_by_hand(look: Look, rank: int) -> str:
    made = {tuple(call.shape) for call in _made(look, rank)}
    whole = tuple(range(look.case.world_size))
    lost = [axis for axis, ranks in look.outputs[rank].items() if not isinstance(ranks, str) and not look.refused
            and tuple(ranks) not in made | {whole}]
    return f"rank {rank} made no group for {', '.join(lost)}" if lost else ""


def _too_many(look: Look, rank: int) -> str:
    sizes = look.case.inputs[rank]["sizes"].values()
    most = sum(math.prod(sizes) // size for size in sizes)
    made = len(_made(look, rank))
    return f"rank {rank} made {made} groups, the mesh has {most}" if made > most and not look.refused else ""


def _among_members(look: Look, rank: int) -> str:
    alone = [call for call in _made(look, rank) if len(call.members) < look.case.world_size]
    return f"rank {rank} made {alone[0].shape} with its members only" if alone else ""


def _too_late(look: Look, rank: int) -> str:
    made = len(_made(look, rank))
    return f"rank {rank} made {made} groups for sizes that do not fit" if made and look.refused else ""


def _holds(words: str) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, rank, found, right: words in found.values())


def _groups_differ(look: Look) -> bool:
    return look.evidence.ending in (DEADLOCKED, RAISED) and "new_group" in look.evidence.said


TECHNIQUE = Technique(
    demands=(
        only_calls(),
        Demand("not made by hand", "every group is made by dist.new_group", on_each_rank(_not_by_hand), gate=True),
        Demand("too many groups", "every group is made once", on_each_rank(_too_many), forbids=True),
        Demand("members only", "every rank makes all groups", on_each_rank(_among_members), forbids=True),
        Demand("refused too late", "sizes that do not fit are refused before any group is made", on_each_rank(_too_late),
               forbids=True),
        numbers_left(),
        inputs_kept(),
    ),
    symptoms=(
        Symptom("not everyone makes every group", _groups_differ),
        raised("is what this exercise has you write", "not made by hand"),
        raised("KeyError", "fixed names"),
        sizes_taken("not refused"),
        Symptom("not a member", _holds(NOT_A_MEMBER)),
        Symptom("no group", _holds(NO_GROUP)),
    ),
    fallbacks=(
        Symptom("axis missing", wrong_ranks(lambda look, rank, found, right: found.keys() < right.keys())),
        Symptom("fixed names", wrong_ranks(lambda look, rank, found, right: not found.keys() <= right.keys())),
        Symptom("wrong lines", wrong_ranks(lambda look, rank, found, right: found.keys() <= right.keys())),
    ),
)
