"""How reduce_tied_gradient must be done, and how it can fail."""

from typing import Any

from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited, unchanged_under_way
from grader.judging.exercise import Case, Demand, Look, Symptom, Technique
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import deadlocked, group_ignored, raised, unwaited, wrong_ranks


def ends(case: Case, rank: int) -> tuple[int, ...]:
    """The first and the last rank of a group; one rank if they are the same."""
    members = case.members(rank)
    return tuple(dict.fromkeys((members[0], members[-1])))


def _sent(look: Look, rank: int) -> float:
    takes_part = rank in ends(look.case, rank) and len(look.case.members(rank)) > 1
    return look.case.inputs[rank]["gradient"].nbytes if takes_part else 0


def _only_the_ends(look: Look) -> tuple[bool, str]:
    for call in look.evidence.trace.calls:
        if call.op != "new_group" and call.rank not in ends(look.case, call.rank):
            return False, f"rank {call.rank} called {call.op}"
    return True, ""


def _own(look: Look, rank: int, found: Any, right: Any) -> bool:
    return rank in ends(look.case, rank) and same(found["gradient"], look.case.inputs[rank]["gradient"]) and same(
        found["weight"], look.case.inputs[rank]["weight"])


def _own_twice(look: Look, rank: int, found: Any, right: Any) -> bool:
    return rank in ends(look.case, rank) and same(
        found["gradient"], right["gradient"] + look.case.inputs[rank]["gradient"])


TECHNIQUE = Technique(
    demands=(
        needs(each_way(_sent)),
        only_calls("send", "recv", "all_reduce"),
        Demand("others take part", "only the first and the last stage communicate", _only_the_ends, gate=True, forbids=True),
        bytes_sent(_sent, "one gradient each way"),
        results_waited(),
        sends_waited(),
        unchanged_under_way(),
    ),
    symptoms=(
        group_ignored(),
        raised("NoneType", "middle stages"),
        deadlocked("cycle of", "both do the same"),
        unwaited(),
        deadlocked("", "ends wait"),
    ),
    fallbacks=(
        Symptom("changed before it was sent", wrong_ranks(_own_twice)),
        Symptom("not reduced", wrong_ranks(_own)),
    ),
)
