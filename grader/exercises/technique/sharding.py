"""How exercises about shards use collectives, what their demands look at, and how such a result first differs."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from grader.calling.sharding import BACKWARD, HELD, OWNED
from grader.calling.zoo import DEEP_LAYERS, DEEP_WIDTH
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.models import model_seen
from grader.exercises.technique.rank_by_rank import not_seen
from grader.judging.compare import same
from grader.judging.demands import results_waited, unchanged_under_way
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import needs
from grader.judging.symptoms import group_ignored, unwaited
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.trace import Span

ROWS = 2  # of each rank's batch, where layers are counted
LAYER_BYTES = 8 * DEEP_WIDTH * (DEEP_WIDTH + 1)
ACTIVATION_BYTES = 8 * ROWS * DEEP_WIDTH * 4 * DEEP_LAYERS  # twice what a layer keeps: its output and its tanh


def by_collectives(*demands: Demand, symptoms: tuple[Symptom, ...] = (),
                   fallbacks: tuple[Symptom, ...] = ()) -> Technique:
    """With the group's collectives, all of them waited for. group_hint: for whoever calls them on another group."""
    waited = results_waited(), unchanged_under_way()
    return Technique((*demands, *waited), (group_ignored(), unwaited(), *symptoms), fallbacks)


def spans_of(look: Look, rank: int, name: str) -> list[Span]:
    """One rank's spans and marks whose names begin with `name`, in order.  Raises: NotSeen if there is none."""
    spans = [span for span in look.evidence.trace.spans if span.rank == rank and span.name.startswith(name)]
    return sorted(spans, key=lambda span: span.start_s) or not_seen(rank, name)


def first_wrong(look: Look, parts: Iterable[str]) -> str:
    """Of the parts of a result, a dictionary, the first that is wrong on any rank; empty where all are right."""
    wrong = (part for part in parts if any(not isinstance(found, dict) or not same(found.get(part), expected[part])
                                           for _, found, expected in look.pairs()))
    return next(wrong, "")


def first_wrong_is(*parts: str) -> Callable[[Look], bool]:
    """Whether what is first wrong of the result is one of these parts; not where there is no result."""
    return lambda look: look.evidence.ending == RETURNED and first_wrong(look, look.right[look.working[0]]) in parts


def gathers_and_reductions(look: Look, rank: int, whole: float, gathers: int = 1, reductions: int = 1) -> float:
    """Bytes that a rank sends in so many all-gathers and reduce-scatters of a row of `whole` bytes."""
    times = {"all_gather": gathers, "reduce_scatter": reductions}
    return sum(count * bytes_sent_per_rank(op, whole, look.case.group_size(rank)) for op, count in times.items())


def gathered_and_reduced(whole: Callable[[Look, int], float], gathers: int = 1, reductions: int = 1) -> Demand:
    """So many all-gathers and reduce-scatters of a row of whole(look, rank) bytes are needed."""
    return needs(lambda look, rank: [("all_gather", gathers * whole(look, rank)),
                                     ("reduce_scatter", reductions * whole(look, rank))])


def gathered_again(given: Callable[[Look, int], float]) -> Demand:
    """Each rank of several gave its all-gathers at least given(look, rank) bytes: what is not kept is asked for again."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in () if look.refused else look.working:
            seen, wanted = sum(call.bytes_given for call in look.evidence.trace.of(rank, "all_gather")), given(look, rank)
            if look.case.group_size(rank) > 1 and seen < wanted - 0.5:
                return False, f"rank {rank} gave {seen:,} B to its all-gathers, wanted {wanted:,.0f} B"
        return True, ""

    return Demand("not gathered again", "what is not kept is gathered again", judge)


def held_at_most(id: str, phases: Iterable[str], allowed: Callable[[Look, int], float], label: str) -> Demand:
    """Each rank's marks called HELD say in these phases at most allowed(look, rank) bytes."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            limit = allowed(look, rank)
            for phase in phases if limit < math.inf else ():
                held = [mark.facts["bytes"] for mark in spans_of(look, rank, HELD) if mark.facts["phase"] == phase]
                most = max(held or not_seen(rank, phase))
                if most > limit:
                    return False, f"rank {rank}, {phase}: held {most:,} B, allowed {limit:,.0f} B"
        return True, ""

    return Demand(id, label, judge)


def divided(look: Look) -> tuple[bool, str]:
    """Each rank's marks called OWNED say that it holds no more numbers of parameters than its share, rounded up."""
    for rank in look.working:
        parameters = list(model_seen(look.case, rank).parameters())
        share = sum(p.numel() for p in parameters) // look.case.group_size(rank) + len(parameters)
        for owned in spans_of(look, rank, OWNED):
            if owned.facts["count"] > share:
                return False, f"rank {rank} holds {owned.facts['count']:,} elements, its share is {share:,}"
    return True, ""


def freed_after_forward(inputs: Mapping[str, Any]) -> bool:
    """Whether the wrapper of a case frees its layers after forward: it does if nothing is said."""
    return inputs.get("wrapping", {}).get("reshard_after_forward", True)


def layers_stand_at_most(phase: str, layers: int) -> Demand:
    """Of the deep model, freed after forward, the numbers of so many layers stand at once, copies included."""

    def allowed(look: Look, rank: int) -> float:
        inputs, n = look.case.inputs[rank], look.case.group_size(rank)
        if inputs["model"] not in ("deep", "turned") or n == 1 or not freed_after_forward(inputs):
            return math.inf
        shards = DEEP_LAYERS * LAYER_BYTES // n * (phase == BACKWARD)  # gradients; the optimizer's state is older
        return layers * LAYER_BYTES + ACTIVATION_BYTES + shards

    label = f"never more than {layers} layers' elements at once, {phase}"
    return held_at_most(f"whole layers in {phase}", [phase], allowed, label)
