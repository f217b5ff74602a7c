"""How pipeline_forward must be done, and how it can fail."""

from typing import Any

from grader.calling.pipelining import PASS
from grader.exercises.technique.pipelines import (
    UNLIKE,
    micro_batches_themselves,
    neighbours_needed,
    only_neighbours,
    outputs_sent,
    passes,
    received_with_passes,
)
from grader.exercises.technique.rank_by_rank import not_seen
from grader.judging.demands import results_waited, sends_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited, wrong_ranks


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
        members = look.case.members(rank)
        nbytes = look.case.inputs[members[look.case.group_rank(rank) + 1]]["like"].nbytes
        for _, micro, start_s in passes(look, rank) or not_seen(rank, PASS):
            begun = sum(call.bytes for call in look.evidence.trace.of(rank, "send") if call.start_s <= start_s)
            if begun < micro * nbytes:
                return False, f"rank {rank}: {begun:,} B sent before micro-batch {micro} was computed, of {micro * nbytes:,}"
    return True, ""


def _values_only(look: Look, rank: int, found: Any, right: Any) -> bool:
    return right is not None and found.shape == right.shape and found.dtype == right.dtype


TECHNIQUE = Technique(
    demands=(
        neighbours_needed(back=False),
        only_neighbours(),
        Demand("not in micro-batches", "the stage is called once for each micro-batch",
               "The stage must be called once for each micro-batch: with the whole batch at once every stage waits for the "
               "one before it to finish everything.", _each_alone),
        received_with_passes(back=False),
        Demand("sent too late", "each output leaves before the next micro-batch is computed",
               "Outputs are held back: send each one as soon as it is computed, so that the next stage can start.",
               _sent_at_once),
        outputs_sent("each output once, to the next stage",
                     "Right, but more is sent than the outputs: each one goes to the next stage, once.", back=False),
        results_waited(),
        sends_waited(),
        micro_batches_themselves(),
    ),
    symptoms=(
        group_ignored(),
        forgotten_send(),
        unwaited(),
        deadlocked("size differs", UNLIKE, "another size"),
        deadlocked("dtype differs", UNLIKE, "another dtype"),
        raised("can require gradients", "Only the forward pass is asked for: nothing needs a gradient, and tokens cannot "
               "have one.", "gradient of tokens"),
        deadlocked("receive without send", "A stage waits for a micro-batch that nobody sends: every stage but the last "
                                           "sends each output to the next one.", "nothing sent"),
        deadlocked("send without receive", "An output is sent that nobody receives: the last stage sends nothing, and every "
                   "other one receives n_micro messages.", "nobody receives"),
        deadlocked("", "The stages wait for each other: every stage receives from the one before it and sends to the next "
                   "one, and nothing else.", "wrong neighbours"),
        raised("NoneType", "Only the first stage has x_BD: the others receive into a new tensor like like_bD.", "x missing"),
        raised("there is no rank", "The last stage has no next one, and the first none before it; with one rank it is "
                                   "both.", "beyond the ends"),
        raised("itself", "A stage alone in its group sends nothing.", "alone"),
    ),
    fallbacks=(
        Symptom("output elsewhere", "Only the last rank has outputs to return: the others return None.",
                wrong_ranks(lambda look, rank, found, right: right is None)),
        Symptom("overwritten on its way", "Rows come out wrong: a tensor was overwritten while it was still being sent, or "
                                          "still needed. Every micro-batch has tensors of its own, unchanged until the send "
                                          "is waited for.", wrong_ranks(_values_only)),
    ),
)
