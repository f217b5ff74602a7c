"""Micro-batches forward through the stages: receive, compute, send, and the last stage keeps what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.shared.pipeline_demands import P2P_ONLY, passes
from grader.exercises.shared.pipeline_inputs import pipeline_cases, sent_bytes, whole_output
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, only_calls, results_waited, sends_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited, wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3, 2, "float64"), (2, 3, 3, "float64"), (3, 4, 1, "float32"), (4, 5, 2, "bfloat16"), (4, 1, 3, "float64")]
    sizes += [(5, 3, 2, "float64"), (2, draw.integer(5, 7), 1, "float64")] * grading
    return pipeline_cases(draw, grading, sizes, drop=("y",))


def _each_alone(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        done, m = sum(kind == "F" for kind, *_ in passes(look, rank)), look.case.inputs[rank]["n_micro"]
        if done != m:
            return False, f"rank {rank} called its stage {done} times, wanted {m}"
    return True, ""


def _sent_at_once(look: Look) -> tuple[bool, str]:
    """Before the stage computes micro-batch i + 1, the outputs up to i are on their way."""
    for rank in look.working:
        if rank == look.case.members(rank)[-1]:
            continue
        sends = look.evidence.trace.of(rank, "send")
        for _, micro, start_s in passes(look, rank):
            begun = sum(call.start_s <= start_s for call in sends)
            if begun < micro:
                return False, f"rank {rank}: {begun} sent before micro-batch {micro} was computed, wanted {micro}"
    return True, ""


def _last(part: Callable[[Look, int], Any]) -> Callable[[Look], bool]:
    """The last rank of every group that is wrong found this in place of the output."""
    return wrong_ranks(lambda look, r, found, expected: expected is not None and same(found, part(look, r)))


def _micro(look: Look, rank: int, pick: Callable[[Sequence[torch.Tensor]], torch.Tensor]) -> torch.Tensor:
    return pick(whole_output(look.case, rank).chunk(look.case.inputs[rank]["n_micro"]))


def _kept_by_others(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return expected is None and isinstance(found, torch.Tensor)


EXERCISE = Exercise(
    title="Micro-batches forward",
    parameters=("stage", "x_BD", "n_micro", "like_MD", "group"),
    make_cases=_cases,
    oracle=each_rank(whole_output),
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("send", "recv", hint=P2P_ONLY),
        Demand("not in micro-batches", "the stage is called once for each micro-batch",
               "The stage must be called once for each micro-batch: with the whole batch at once every stage waits for the "
               "one before it to finish everything.", _each_alone),
        Demand("sent too late", "each output leaves before the next micro-batch is computed",
               "Outputs are held back: send each one as soon as it is computed, so that the next stage can start.",
               _sent_at_once),
        bytes_sent(lambda look, rank: sent_bytes(look, rank, back=False), "each output once, to the next stage",
                   "Right, but more is sent than the outputs: each one goes to the next stage, once."),
        results_waited(),
        sends_waited(),
    ),
        symptoms=(
        group_ignored(),
        forgotten_send(),
        unwaited(),
        Symptom("kept by others", "Only the last stage has the output of the whole: the other ranks return None.",
                wrong_ranks(_kept_by_others)),
        Symptom("last micro-batch only", "Only the last micro-batch came out: keep the output of each one and join them "
                                         "with "
                                         "torch.cat.", _last(lambda look, r: _micro(look, r, lambda parts: parts[-1]))),
        Symptom("wrong order", "The micro-batches come out in the reverse order: send and keep them in order.",
                _last(lambda look, r: _micro(look, r, lambda parts: torch.cat(parts[::-1])))),
        Symptom("one buffer for all", "Every micro-batch came out as the same one: a receive into one buffer overwrites "
                                      "what is still needed. Make a new one for each (torch.empty_like).",
                _last(lambda look, r: _micro(look, r, lambda parts: torch.cat([parts[-1]] * len(parts))))),
        deadlocked("receive without send", "A stage waits for a micro-batch that nobody sends: every stage but the last "
                                           "sends "
                   "each output to the next one.", "nothing sent"),
        deadlocked("send without receive", "An output is sent that nobody receives: the last stage sends nothing, and every "
                   "other one receives n_micro messages.", "nobody receives"),
        deadlocked("", "The stages wait for each other: every stage receives from the one before it and sends to the next "
                   "one, and nothing else.", "wrong neighbours"),
        raised("NoneType", "Only the first stage has x_BD: the others receive into a new tensor like like_MD.", "x missing"),
        raised("there is no rank", "The last stage has no next one, and the first none before it.", "beyond the ends"),
        raised("itself", "A stage alone in its group sends nothing.", "alone"),
    ),
    ),
)
