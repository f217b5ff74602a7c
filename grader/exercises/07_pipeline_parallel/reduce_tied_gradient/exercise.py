"""One weight on the first and on the last stage: the sum of its two gradients, and nobody else takes part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, group_ignored, raised, unwaited, wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int) -> list[dict[str, Any]]:
        weight = draw.tensor(7, 3, dtype=torch.float64) / 50
        return [{"weight": weight, "gradient": draw.tensor(7, 3, dtype=torch.float64) / 50} if r in (0, n - 1)
                else {"weight": None, "gradient": None} for r in range(n)]

    return [Case(ranks(n), tuple(inputs(n))) for n in (1, 2, 3, 4, *([5] * grading))] + [group_case(inputs)]


def _ends(case: Case, rank: int) -> tuple[int, ...]:
    """The first and the last rank of a group; one rank if they are the same."""
    members = case.members(rank)
    return tuple(dict.fromkeys((members[0], members[-1])))


def _reduced(case: Case, rank: int, reduce: Callable[[Sequence[torch.Tensor]], torch.Tensor] = sum) -> dict[str, Any]:
    if rank not in _ends(case, rank):
        return {"gradient": None, "weight": None}
    gradients = [case.inputs[end]["gradient"] for end in _ends(case, rank)]
    return {"gradient": reduce(gradients), "weight": case.inputs[rank]["weight"]}


def _other(case: Case, rank: int) -> torch.Tensor:
    return case.inputs[_ends(case, rank)[0] if rank != _ends(case, rank)[0] else _ends(case, rank)[-1]]["gradient"]


def _sent(look: Look, rank: int) -> float:
    ends = _ends(look.case, rank)
    return look.case.inputs[rank]["gradient"].nbytes if rank in ends and len(ends) == 2 else 0


def _only_the_ends(look: Look) -> tuple[bool, str]:
    for call in look.evidence.trace.calls:
        if call.op != "new_group" and call.rank not in _ends(look.case, call.rank):
            return False, f"rank {call.rank} called {call.op}"
    return True, ""


def _as(gradient: Callable[[Look, int], torch.Tensor]) -> Callable[[Look], bool]:
    """On every wrong rank the gradient is this one, which is not the right one."""
    return wrong_ranks(lambda look, r, found, expected: same(found["gradient"], gradient(look, r)) and not same(
        expected["gradient"], gradient(look, r)))


def _own(look: Look, rank: int) -> torch.Tensor:
    return look.case.inputs[rank]["gradient"]


def _doubled_alone(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return len(_ends(look.case, rank)) == 1 and same(found["gradient"], 2 * expected["gradient"])


def _weight_changed(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return not same(found["weight"], expected["weight"])


EXERCISE = Exercise(
    title="One weight on two stages",
    parameters=("weight", "group"),
    make_cases=_cases,
    oracle=each_rank(_reduced),
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("send", "recv", "all_reduce", hint="The two ends exchange their gradients: one message each way is "
                                                      "enough."),
        Demand("others take part", "only the first and the last stage communicate",
               "Stages in the middle hold nothing of this weight: only the first and the last one talk to each other.",
               _only_the_ends, gate=True),
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
        Symptom("weights summed", "The weight itself was changed: what is summed is its gradient.",
                wrong_ranks(_weight_changed)),
        Symptom("doubled alone", "With one stage there is one weight and one gradient: nothing to add.",
                wrong_ranks(_doubled_alone)),
        Symptom("mean for sum", "The mean was taken. The two gradients are parts of one: embedding and head both use the "
                                "weight, so they add up.",
                _as(lambda look, r: _reduced(look.case, r, lambda both: sum(both) / len(both))["gradient"])),
        Symptom("swapped", "Each end has the other one's gradient: add what comes to what is there.",
                _as(lambda look, r: _other(look.case, r))),
        Symptom("not reduced", "An end kept its own gradient only: both must end with the sum, or the two copies of the "
                               "weight drift apart.", _as(_own)),
    ),
    ),
)
