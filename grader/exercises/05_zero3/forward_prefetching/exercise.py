"""A forward pass that gathers the next layers while it computes: a bounded number of them, each freed after use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.sharding import KEPT
from grader.exercises.shared.cases import each_rank, group_case, pieces, ranks
from grader.exercises.shared.one_process import TOLERANCE
from grader.exercises.technique.sharding import calls_of
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.trace.trace import Span


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, layers: int, depth: int) -> list[dict[str, Any]]:
        shards = [pieces(draw.tensor(9, dtype=torch.float64) / 50, n) for _ in range(layers)]
        return [{"x": draw.tensor(2, 3, dtype=torch.float64) / 50, "shards": [one[r].clone() for one in shards],
                 "depth": depth} for r in range(n)]

    sizes = [(1, 2, 1), (2, 5, 1), (3, 4, 2), (4, 6, 1), (4, 5, 0), (2, 2, 9)] + [(5, 6, 3)] * grading
    cases = [Case(f"{ranks(n)}, {layers} layers, {depth} ahead", tuple(inputs(n, layers, depth)))
             for n, layers, depth in sizes]
    return [*cases, group_case(lambda n: inputs(n, 4, 1), "4 layers, 1 ahead")]


def _output(case: Case, rank: int, order: Callable[[range], Sequence[int]] = list) -> torch.Tensor:
    x = case.inputs[rank]["x"]
    for number in order(range(len(case.inputs[rank]["shards"]))):
        flat = torch.cat([shards[number] for shards in case.peers_inputs(rank, "shards")])
        x = torch.tanh(x @ flat[:9].view(3, 3) + number)
    return x


def _sent(look: Look, rank: int) -> float:
    n = group_size(look, rank)
    return bytes_sent_per_rank("all_gather", n * sum(s.nbytes for s in look.case.inputs[rank]["shards"]), n)


def _computing(look: Look, rank: int) -> list[Span]:
    found = [s for s in look.evidence.trace.spans if s.rank == rank and s.name.startswith("compute ")]
    return sorted(found, key=lambda s: s.start_s)


def _each_compute(look: Look):
    """(rank, layer, its span, the rank's all-gathers, depth) of every layer in groups of more than one rank."""
    for rank in look.working:
        if group_size(look, rank) > 1:
            gathers, depth = calls_of(look, rank, "all_gather"), look.case.inputs[rank]["depth"]
            for number, one in enumerate(_computing(look, rank)):
                yield rank, number, one, gathers, depth


def _begun_before(look: Look) -> tuple[bool, str]:
    for rank, number, one, gathers, depth in _each_compute(look):
        wanted = min(number + 1 + depth, len(look.case.inputs[rank]["shards"]))
        begun = sum(call.start_s <= one.start_s for call in gathers)
        if begun < wanted:
            return False, f"rank {rank}: {begun} all-gathers begun before layer {number} computes, wanted {wanted}"
    return True, ""


def _not_too_far(look: Look) -> tuple[bool, str]:
    for rank, number, one, gathers, depth in _each_compute(look):
        begun = sum(call.start_s <= one.start_s for call in gathers)
        if begun > number + 1 + depth:
            allowed = number + 1 + depth
            return False, f"rank {rank}: {begun} all-gathers begun before layer {number} computes, allowed {allowed}"
    return True, ""


def _waited_late(look: Look) -> tuple[bool, str]:
    for rank, number, one, gathers, _ in _each_compute(look):
        for later, call in enumerate(gathers[number + 1:], number + 1):
            early = call.start_s < one.start_s and (not call.is_async or (
                call.wait_start_s is not None and call.wait_start_s < one.start_s))
            if early:
                return False, f"rank {rank} waited for layer {later} before it computed layer {number}"
    return True, ""


def _freed(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        for one in (s for s in look.evidence.trace.spans if s.rank == rank and s.name == KEPT):
            if one.facts["count"] > 1:
                return False, f"rank {rank} still holds {one.facts['count']} earlier layers at layer {one.facts['layer']}"
    return True, ""


def _as(order: Callable[[range], Sequence[int]]) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: same(found, _output(look.case, r, order), 1e-6))


EXERCISE = Exercise(
    title="Gather the next layer while this one computes",
    parameters=("x_BD", "shards", "compute", "depth", "group"),
    make_cases=_cases,
    oracle=each_rank(_output),
    trains=True,
    tolerance=TOLERANCE,
    technique=Technique(
        demands=(
        only_calls("all_gather", hint="All-gather is all the communication that this exercise needs."),
        Demand("not prefetched", "when layer i computes, layers up to i + depth are on their way",
               "Nothing is gathered while a layer computes: start the all-gathers of the next `depth` layers "
               "(async_op=True) before you compute this one.", _begun_before),
        Demand("too far ahead", "never more than `depth` layers ahead",
               "More layers are gathered ahead than allowed: memory would hold them all. Start layer i + depth when layer i "
               "is about to compute, not earlier.", _not_too_far),
        Demand("waited too early", "a layer is waited for only when its turn comes",
               "The next layer's all-gather blocks, or is waited for, before this layer computes: so nothing overlaps. Keep "
               "the Work and wait for it when its layer's turn comes.", _waited_late),
        Demand("never freed", "earlier layers are freed",
               "The layers that were used already still stand: let go of each flat row after its layer (del it, or pop it "
               "from the list or dictionary).", _freed),
        bytes_sent(_sent, "(n−1)/n of the layers' bytes", "Right, but layers are gathered more than once."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to every call."),
        unwaited(),
        Symptom("last layers left out", "The last layers are never computed: when nothing is left to be gathered, what was "
                                        "gathered must still be used.",
                lambda look: any(_as(lambda all_, k=k: list(all_)[:-k])(look) for k in (1, 2, 3))),
        Symptom("wrong order", "The layers run in another order than that of the list.",
                _as(lambda all_: list(all_)[::-1])),
        raised("out of range", "`depth` may reach beyond the last layer: start only what exists.", "beyond the end"),
    ),
    ),
)
