"""How pipeline_forward must be done, and how it can fail."""

from typing import Any

from grader.calling.pipelining import PASS
from grader.exercises.technique.pipelines import (
    micro_batches_themselves,
    neighbours_needed,
    only_neighbours,
    outputs_sent,
    passes,
    received_with_passes,
)
from grader.exercises.technique.rank_by_rank import not_seen
from grader.judging.demands import results_waited, sends_waited, unchanged_under_way
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
        Demand("not in micro-batches", "the stage is called once for each micro-batch", _each_alone),
        received_with_passes(back=False),
        Demand("sent too late", "each output leaves before the next micro-batch is computed", _sent_at_once),
        outputs_sent("each output once, to the next stage", back=False),
        results_waited(),
        sends_waited(),
        unchanged_under_way(),
        micro_batches_themselves(),
    ),
    symptoms=(
        group_ignored(),
        forgotten_send(),
        unwaited(),
        deadlocked("size differs", "another size"),
        deadlocked("dtype differs", "another size"),
        raised("can require gradients", "gradient of tokens"),
        deadlocked("receive without send", "nothing sent"),
        deadlocked("send without receive", "nobody receives"),
        deadlocked("", "wrong neighbours"),
        raised("NoneType", "x missing"),
        raised("there is no rank", "beyond the ends"),
        raised("itself", "beyond the ends"),
    ),
    fallbacks=(
        Symptom("overwritten on its way", wrong_ranks(_values_only)),
    ),
)
