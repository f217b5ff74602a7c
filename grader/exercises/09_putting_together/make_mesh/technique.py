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
    return look.evidence.ending in (DEADLOCKED, RAISED) and "new_group" in look.evidence.error


BY_HAND = "Groups were made for you: work out the ranks of each line yourself, and give them to dist.new_group."

TECHNIQUE = Technique(
    demands=(
        only_calls(hint="Make the groups with dist.new_group: the ranks follow from the sizes, so nobody has to tell "
                        "anybody anything."),
        Demand("not made by hand", "every group is made by dist.new_group", BY_HAND, on_each_rank(_not_by_hand), gate=True),
        Demand("too many groups", "every group is made once", "The groups are right, but some were made again and again, "
               "once for each of their members: each costs a meeting of all ranks, and connections. Start a line at its "
               "first rank only.", on_each_rank(_too_many), forbids=True),
        Demand("members only", "every rank makes all groups", "The groups are right, but each was made by its members alone "
               "(use_local_synchronization): here every rank makes all groups, in one order, as torch asks by default.",
               on_each_rank(_among_members), forbids=True),
        Demand("refused too late", "sizes that do not fit are refused before any group is made", "Sizes whose product is "
               "not the number of ranks, too small or too large, are refused before any group is made: look at them first.",
               on_each_rank(_too_late), forbids=True),
        numbers_left("The groups are right, but tensors were asked for their numbers. In a simulation they have none: "
                     "work out the ranks with plain Python numbers, range and //."),
        inputs_kept("The groups are right, but `sizes` was changed: the caller still needs it."),
    ),
    symptoms=(
        Symptom("not everyone makes every group", "Ranks call new_group with different lists, or not equally often: every "
                "rank must make all groups of all axes, in the same order, also those that it is not in.", _groups_differ),
        raised("is what this exercise has you write", BY_HAND, "not made by hand"),
        raised("KeyError", "An axis is looked for by a name that `sizes` need not have: axes may have any names, in any "
                           "number, so go through `sizes` in its order.", "fixed names"),
        sizes_taken("not refused", "Sizes whose product is not the number of ranks must raise a ValueError that names both "
                                   "numbers, before any group is made."),
        Symptom("not a member", "A rank holds a group that it is not in (new_group returns a mark for those): keep the "
                "group only if this rank is among its members.", _holds(NOT_A_MEMBER)),
        Symptom("no group", "The dictionary should hold the groups themselves, what dist.new_group returns.",
                _holds(NO_GROUP)),
    ),
    fallbacks=(
        Symptom("axis missing", "Every axis in sizes has its group, also one of size 1 (a group of this rank alone).",
                wrong_ranks(lambda look, rank, found, right: found.keys() < right.keys())),
        Symptom("other axes", "The axes are not those of `sizes`: they may have any names, so take each name and length "
                "from there.", wrong_ranks(lambda look, rank, found, right: not found.keys() <= right.keys())),
        Symptom("wrong lines", "Some groups are not the mesh's: along an axis two neighbours are as many ranks apart as the "
                "axes behind it have together (1 for the last), and stand at the same place along every other axis.",
                wrong_ranks(lambda look, rank, found, right: found.keys() <= right.keys())),
    ),
)
