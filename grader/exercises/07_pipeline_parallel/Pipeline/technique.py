"""How Pipeline must be done, how it is read, and how it can fail."""

from typing import Any

from grader.calling.schedules_run import ALIVE, DONE, as_schedule
from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique.schedules import fault_of, peaks
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
from grader.judging.exercise import Case, Demand, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited, wrong_ranks
from utils.schedules.schedule import Fault, Schedule, Shape, Step


def shape_in(case: Case, rank: int = 0) -> Shape:
    return Shape(*case.inputs[rank]["shape"])


def schedule_in(case: Case, rank: int = 0) -> Schedule:
    return as_schedule(case.inputs[rank]["schedule"])


def refusal(fault: Fault) -> dict[str, str]:
    return {"ValueError": f"names {fault.step}"}


def _reading(case: Case, found: Any) -> Any:
    fault = fault_of(schedule_in(case), shape_in(case))
    named = "ValueError" in found and fault is not None and str(fault.step) in found["ValueError"]
    return refusal(fault) if named else found


def _refused(look: Look) -> bool:
    """The case's schedule cannot run."""
    return "ValueError" in look.right[look.working[0]]


def _own_row(look: Look, rank: int) -> list[Step]:
    return schedule_in(look.case, rank)[look.case.group_rank(rank)]


def _done(look: Look, rank: int) -> list[Step]:
    """What was done on this rank, in order, of all steps of training: from the marks of its stages."""
    split = "W" in shape_in(look.case, rank).kinds
    kinds = {"F": "F", "I": "I", "W": "W"} if split else {"F": "F", "I": "B"}
    marks = sorted((s for s in look.evidence.trace.spans if s.rank == rank and s.name == DONE), key=lambda s: s.start_s)
    return [Step(kinds[s.facts["kind"]], s.facts["micro"], s.facts["stage"]) for s in marks if s.facts["kind"] in kinds]


def _seen(steps: list[Step]) -> list[Step]:
    """The first stage's input needs no gradient: what happens there is seen by its weights only."""
    return [step for step in steps if step.stage > 0 or step.kind in "FW"]


def _in_order(look: Look) -> tuple[bool, str]:
    for rank in () if _refused(look) else look.working:
        wanted = _seen(_own_row(look, rank) * len(look.case.inputs[rank]["xs"]))
        done = _seen(_done(look, rank))
        for number, (a, b) in enumerate(zip(done, wanted, strict=False)):
            if a != b:
                return False, f"rank {rank} did {a} where the schedule has {b} (number {number})"
        if len(done) != len(wanted):
            return False, f"rank {rank} did {len(done)} steps, the schedule has {len(wanted)}"
    return True, ""


def _let_go(look: Look) -> tuple[bool, str]:
    for rank in () if _refused(look) else look.working:
        allowed = peaks(schedule_in(look.case, rank))[look.case.group_rank(rank)]
        most = max((s.facts["count"] for s in look.evidence.trace.spans if s.rank == rank and s.name == ALIVE), default=0)
        if most > allowed:
            return False, f"rank {rank} kept {most} micro-batches' activations, the schedule has {allowed} in flight"
    return True, ""


def _sent(look: Look, rank: int) -> float:
    """A message for each step whose result another rank needs."""
    inputs, shape = look.case.inputs[rank], shape_in(look.case, rank)
    if _refused(look) or shape.n_ranks == 1:
        return 0.0
    forward = sum(step.kind == "F" and step.stage < shape.n_stages - 1 for step in _own_row(look, rank))
    backward = sum(step.kind in "BI" and step.stage > 0 for step in _own_row(look, rank))
    return float((forward + backward) * inputs["xs"][0][0].nbytes * len(inputs["xs"]))


def _loss_elsewhere(look: Look, rank: int, found: Any, right: Any) -> bool:
    return not right["losses"][0] and not same(found["losses"], right["losses"])


def _shuffled(look: Look) -> bool:
    """The case in which messages are wanted in another order than they are sent, and only there."""
    return look.case.name.startswith(("1F1B turned", "interleaved")) and look.evidence.ending in (DEADLOCKED, RETURNED)


TECHNIQUE = Technique(
    reading=_reading,
    demands=(
        only_calls("send", "recv", hint="Activations and gradients go from stage to stage by send and recv (isend, irecv); "
                                        "no collective is needed."),
        Demand("another order", "steps in the schedule's order",
               "Losses and gradients are right, but the steps were not done in the order of the schedule.", _in_order),
        Demand("kept too long", "activations let go at B or W",
               "Right, but activations of more micro-batches are kept than the schedule has in flight: after a backward "
               "nothing may hold the micro-batch's output, input or graph.", _let_go),
        bytes_sent(_sent, "one message for each stage's neighbour",
                   "More was sent than one activation forward and one gradient backward for each micro-batch between two "
                   "stages on different ranks."),
        results_waited(),
        sends_waited(),
    ),
    symptoms=(
        group_ignored(),
        Symptom("runs what cannot run", "A schedule that cannot run is to be refused: __init__ raises "
                                        "ValueError(str(fault)) with validate_schedule's fault.",
                _refused),
        forgotten_send(),
        raised("itself", "Two stages of one rank: hand the tensor over within the rank, no message.", "message to itself"),
        deadlocked("", "Ranks wait for each other. Sends must not block (isend, and wait for them later), a receive should "
                       "come right before the step that needs it, with the tag of the message that it wants.", "deadlock"),
        unwaited(),
    ),
    fallbacks=(
        Symptom("losses elsewhere", "Only the rank of the last stage returns losses; others return [].",
                wrong_ranks(_loss_elsewhere)),
        raised("does not require grad", "A received activation needs requires_grad_() before its stage computes, or no "
               "gradient comes back for the stage before.", "no gradient for the input"),
        raised("NoneType", "A received activation needs requires_grad_() before its stage computes, or its gradient is "
                           "None.", "no gradient of the input"),
        Symptom("messages mixed up", "With messages wanted in another order than they were sent the wrong ones are taken. "
                                     "Give each message a tag of its own, from kind, micro-batch and stage.",
                _shuffled),
    ),
)
