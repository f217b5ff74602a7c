"""How DataParallel must be done, and how it can fail."""

from collections.abc import Callable
from dataclasses import replace

from grader.calling.training import NESTED, QUIET, WRAPPING
from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique import training
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_called
from grader.exercises.technique.sharding import first_wrong
from grader.judging.demands import only_calls, results_waited, unchanged_under_way
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import changed_under_way, group_ignored, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

STEPS = 3


def _broadcast_bytes(look: Look, rank: int) -> float:
    state_bytes = training.model_bytes(look, rank) + training.A_LOSS_BYTES
    return bytes_sent_per_rank("broadcast", state_bytes, look.case.group_size(rank))


def _model_from_first(look: Look, rank: int) -> list[tuple[str, float]]:
    nbytes = sum(p.nbytes for p in training.model_seen(look.case, rank).parameters())
    return [("recv" if look.case.group_rank(rank) else "send", nbytes)]


def _quiet_in(name: str) -> Callable[[Look], tuple[bool, str]]:
    """Nothing is sent in the spans of this name."""

    def fault(look: Look, rank: int) -> str:
        for span in spans_called(look, rank, name) if look.case.inputs[rank]["micro"] > 1 else ():
            if any(span.start_s <= call.start_s <= span.end_s for call in look.evidence.trace.of(rank)):
                return f"rank {rank} communicated inside no_sync()"
        return ""

    return on_each_rank(fault)


def _broadcast_again(look: Look, rank: int) -> str:
    end_s = max(span.end_s for span in spans_called(look, rank, WRAPPING))
    late = [call for call in look.evidence.trace.of(rank, "broadcast") if call.start_s > end_s]
    return f"rank {rank} called broadcast {len(late)} times later" if late else ""


def _begins_to_differ(id: str, part: str) -> Symptom:
    """Of the result's three parts, `part` is the first that is wrong on any rank."""
    return Symptom(id, lambda look: _first_wrong(look) == part)


def _in_gradients(symptom: Symptom) -> Symptom:
    """The same where the first step's gradients are the first that is wrong."""
    return replace(symptom, matches=lambda look: _first_wrong(look) == "gradients" and symptom.matches(look))


def _first_wrong(look: Look) -> str:
    return first_wrong(look, ("start", "gradients", "parameters")) if look.evidence.ending == RETURNED else ""


def _arguments_lost(look: Look) -> bool:
    said = ("unexpected keyword argument", "required positional argument", "positional arguments but")
    return look.evidence.ending == RAISED and any(text in look.evidence.said for text in said)


QUIET_IN = Demand("communicates in no_sync", "nothing is sent inside no_sync()", _quiet_in(QUIET))
QUIET_NESTED = Demand("inner no_sync", "nothing is sent after an inner no_sync()", _quiet_in(NESTED))
LEFT_OUT = training.left_out(STEPS)
WAITED = results_waited()


def _waited_aloud(look: Look) -> tuple[bool, str]:
    """What is sent where nothing should be is another mistake than not to wait for it."""
    quiet = all(demand.judge(look)[0] for demand in (QUIET_IN, QUIET_NESTED))
    return WAITED.judge(look) if quiet else (True, "")


def _bucket_incomplete(look: Look) -> bool:
    """Something was left out, and there is a parameter whose gradient never comes."""
    return _in_gradients(LEFT_OUT).matches(look) and training.some_unused(look, 0)


ONCE = training.gradient_bytes_once(STEPS, _broadcast_bytes)
TECHNIQUE = Technique(
    demands=(
        training.gradients_needed(STEPS, _model_from_first),
        only_calls("all_reduce", "broadcast"),
        *training.OVERLAPPED,
        QUIET_IN,
        QUIET_NESTED,
        Demand("broadcast again", "broadcasts on wrapping only", on_each_rank(_broadcast_again)),
        training.OWN_DTYPES,
        ONCE,
        replace(WAITED, judge=_waited_aloud),
        unchanged_under_way(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        training.instead(QUIET_IN),
        training.instead(QUIET_NESTED),
        training.instead(ONCE),
        raised("argument: 'group'", "group demanded"),
        Symptom("arguments lost", _arguments_lost),
        raised("NoneType", "no gradient"),
        training.FROZEN_HOOKED,
        Symptom("bucket never sent", _bucket_incomplete, refuted=lambda look: not training.some_unused(look, 0)),
    ),
    fallbacks=(
        _begins_to_differ("start not shared", "start"),
        _in_gradients(changed_under_way()),
        _in_gradients(LEFT_OUT),
        _begins_to_differ("gradients wrong", "gradients"),
        _begins_to_differ("later steps wrong", "parameters"),
    ),
)
