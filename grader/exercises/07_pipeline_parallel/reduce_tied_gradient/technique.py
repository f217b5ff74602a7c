"""How reduce_tied_gradient must be done, and how it can fail."""

from typing import Any

from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
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
        only_calls("send", "recv", "all_reduce", hint="The two ends exchange their gradients: one message each way is "
                                                      "enough."),
        Demand("others take part", "only the first and the last stage communicate",
               "Stages in the middle hold nothing of this weight: only the first and the last one talk to each other.",
               _only_the_ends, gate=True, forbids=True),
        bytes_sent(_sent, "one gradient each way", "Right, but more is sent than one gradient each way."),
        results_waited(),
        sends_waited(),
    ),
    symptoms=(
        group_ignored(),
        raised("NoneType", "Stages between the ends have no copy of the weight (None), and nothing to say: only the first "
               "and the last take part.", "middle stages"),
        deadlocked("cycle of sends", "Both ends send first, and a send ends only when it is received: let one receive "
                                     "first, or use isend.", "both send first"),
        deadlocked("cycle of receives", "Both ends receive first, and nobody sends: let one send first, or use isend.",
                   "both receive first"),
        unwaited(),
        deadlocked("", "The two ends wait for messages that do not come. Nobody between them calls anything: a collective "
                       "on the whole group would wait for all of them. Send to the other end, and receive from it.", "ends "
                                                                                                                     "wait"),
    ),
    fallbacks=(
        Symptom("changed before it was sent", "An end's own gradient came back to it within the other's: that one was added "
                                              "to before it was sent, or while it was. Add only when the send is waited "
                                              "for.",
                wrong_ranks(_own_twice)),
        Symptom("not reduced", "An end kept its own gradient only: both must end with the sum, or the two copies of the "
                               "weight drift apart.", wrong_ranks(_own)),
    ),
)
