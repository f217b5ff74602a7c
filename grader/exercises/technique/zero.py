"""Demands on state and gradients in shards, and ways to fail, that the exercises of ZeRO-1 and ZeRO-2 share."""

import functools
from collections.abc import Callable

import torch

from grader.calling.sharding import AFTER
from grader.calling.training import ACCEPTED, NOTHING, STANDING, UNEQUAL, make_optimizer
from grader.evidence.case import Case
from grader.evidence.evidence import RAISED, RETURNED
from grader.exercises.technique.models import model_of, reduced
from grader.exercises.technique.rank_by_rank import not_seen, on_each_rank, spans_if_any, the_mark
from grader.exercises.technique.sharding import held_at_most, spans_of
from grader.exercises.technique.training import dtypes_of
from grader.judging.compare import same
from grader.judging.exercise import Demand, Look, Symptom
from grader.judging.needs import needs
from utils.trace.trace import Span

STATE_SLACK_BYTES = 64  # a step count a tensor, and such
CHECK_BYTES = 64  # a tensor: a wrapper may ask whether all ranks start equal (utils.costs.replicas)


# ── the optimizer's state ──


def whole_state(look: Look, rank: int) -> list[int]:
    """Bytes of the state that one process keeps, tensor by tensor."""
    return _whole_state(look.case, rank)


@functools.lru_cache(maxsize=64)
def _whole_state(case: Case, rank: int) -> list[int]:
    model = model_of(case, rank)
    optimizer = make_optimizer(case.inputs[rank], [p for p in model.parameters() if p.requires_grad])
    for name in reduced(case, rank):
        model.get_parameter(name).grad = torch.zeros_like(model.get_parameter(name))
    optimizer.step()
    return [sum(value.nbytes for value in state.values() if isinstance(value, torch.Tensor))
            for state in optimizer.state.values()]


def state_held(look: Look, rank: int) -> int:
    """Bytes of optimizer state that a rank had in the end."""
    memory = look.evidence.memory[rank] or not_seen(rank, "memory")
    return memory.now["optimizer state"]


def has_rests(look: Look) -> bool:
    """Whether a layer of the case's model takes no part in some passes."""
    return look.case.inputs[0]["model"] == "seldom"


def something_sharded() -> Demand:
    """Gate: not every rank of a group holds the state of all tensors."""

    def judge(look: Look) -> tuple[bool, str]:
        for members in {look.case.members(rank) for rank in look.working}:
            whole = sum(whole_state(look, members[0]))
            if len(members) > 1 and whole and all(state_held(look, rank) >= whole for rank in members):
                return False, f"every rank holds all {whole:,} B of it"
        return True, ""

    return Demand("not sharded", "optimizer state in shards", judge, gate=True)


LEAST_STATE = 0.45  # shards of half the width have half the state, and a demand of their own


def state_kept() -> Demand:
    """Gate: the state of all tensors is with the optimizers of a group's ranks."""

    def judge(look: Look) -> tuple[bool, str]:
        for members in {look.case.members(rank) for rank in look.working}:
            whole = sum(whole_state(look, members[0]))
            if (together := sum(state_held(look, rank) for rank in members)) < LEAST_STATE * whole:
                return False, f"the ranks' optimizers hold {together:,} B together, of {whole:,} B"
        return True, ""

    return Demand("state not kept", "the state of all parameters is with the ranks' optimizers", judge, gate=True,
                  for_right_values=True)


def state_divided(allowed: Callable[[Look, int], float]) -> Demand:
    """No rank holds more than allowed(look, rank) bytes of state."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            held, limit = state_held(look, rank), allowed(look, rank)
            if held > limit:
                return False, f"rank {rank} holds {held:,} B of {sum(whole_state(look, rank)):,} B, allowed {limit:,.0f} B"
        return True, ""

    return Demand("state not divided", "each rank holds its share of the optimizer's state", judge)


def check_bytes(look: Look, rank: int, times: int = 1) -> int:
    """What asking `times` times whether all ranks are equal may send."""
    return times * CHECK_BYTES * (1 + len(list(model_of(look.case, rank).parameters())))


def wrongly_taken(look: Look, rank: int) -> str:
    """What a constructor must refuse and did not; ranks that differ need not be noticed by the group's first one."""
    wrong = [NOTHING] + [UNEQUAL] * (look.case.group_rank(rank) > 0)
    taken = [what for what in the_mark(look, rank, ACCEPTED)["what"] if what in wrong]
    return f"rank {rank}: accepted with {taken[0]}" if taken else ""


# ── gradients ──


def padded_rows(look: Look, rank: int) -> list[int]:
    """Bytes of each gradient, padded to a multiple of the number of ranks; a tied one once."""
    n = look.case.group_size(rank)
    return [-(-g.numel() // n) * n * g.itemsize for g in reduced(look.case, rank).values()]


def padded_bytes(look: Look, rank: int) -> int:
    """Of all of them."""
    return sum(padded_rows(look, rank))


def trained_needed(steps: Callable[[Look, int], int], *operations: str) -> Demand:
    """In each step these operations, each of all that has a gradient."""

    def transfers(look: Look, rank: int) -> list[tuple[str, float]]:
        nbytes = sum(gradient.nbytes for gradient in reduced(look.case, rank).values())
        return [(operation, steps(look, rank) * nbytes) for operation in operations]

    return needs(transfers)


def never_all_gradients() -> Demand:
    """At no time stand more gradients than the two largest together."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            sizes = sorted(g.nbytes for g in reduced(look.case, rank).values())
            most = max(standing.facts["bytes"] for standing in spans_of(look, rank, STANDING)) if sizes else 0
            allowed = sum(sizes[-2:])
            if most > allowed and sizes:
                return False, f"rank {rank} held {most:,} B of {sum(sizes):,} B at once, allowed {allowed:,} B"
        return True, ""

    return Demand("full gradients", "never more than the two largest gradients at once", judge)


def nothing_else_kept() -> Demand:
    """Afterwards no more is held than the shards, and what belongs to them; and perhaps the room of one gradient."""

    def allowed(look: Look, rank: int) -> float:
        return max(padded_rows(look, rank), default=0) + CHECK_BYTES

    return held_at_most("more kept", [AFTER], allowed, "afterwards only shards are kept")


def own_dtypes(in_16_bits: str = "") -> Demand:
    """Numbers travel in the types that the gradients have; in spans called `in_16_bits` those of another model, bfloat16."""

    def fault(look: Look, rank: int) -> str:
        apart, own = spans_if_any(look, rank, in_16_bits) if in_16_bits else (), dtypes_of(look, rank)
        others = set()
        for call in look.evidence.trace.of(rank):
            wanted = {"bfloat16"} if any(span.start_s <= call.start_s <= span.end_s for span in apart) else own
            others |= {call.dtype} - wanted if "float" in call.dtype else set()
        return f"rank {rank} sent {' and '.join(sorted(others))}" if others else ""

    return Demand("another type on the way", "elements travel in their own dtype", on_each_rank(fault), forbids=True)


def reductions(look: Look, rank: int, span: Span) -> list[float]:
    """When a rank began to reduce something, during one of its spans."""
    return [call.start_s for call in look.evidence.trace.of(rank) if span.start_s <= call.start_s <= span.end_s
            and call.op in ("reduce", "reduce_scatter", "all_reduce")]


# ── ways to fail ──


def raised_any(id: str, *texts: str) -> Symptom:
    """The run failed with an error that holds one of these texts."""
    return Symptom(id, lambda look: look.evidence.ending == RAISED and any(text in look.evidence.said for text in texts))


def other_type() -> Symptom:
    """The output of a collective has not the type of its input."""
    texts = ("dtype()", "same type")  # of gloo, of NCCL
    return raised_any("buffer of another dtype", *texts)


def super_forgotten() -> Symptom:
    """A subclass of torch's Optimizer without what its constructor makes."""
    return raised_any("super forgotten", "attribute 'param_groups'", "attribute 'defaults'", "_optimizer_step_pre_hooks",
                      "KeyError: 'lr'")


def misfit() -> Symptom:
    """A tensor that n does not divide was not padded."""
    texts = ("size", "outputShape", "divisible")  # of views and copies, of gloo's reduce-scatter, of NCCL's
    return raised_any("not padded", *texts)


def hooked_twice() -> Symptom:
    """Only models with a tied weight fail: at the second call of its hook the gradient is gone."""

    def tied(look: Look) -> bool:
        model = model_of(look.case, look.working[0])
        return len(list(model.named_parameters(remove_duplicate=False))) > len(list(model.parameters()))

    def matches(look: Look) -> bool:
        return look.evidence.ending == RAISED and "NoneType" in look.evidence.said and tied(look)

    return Symptom("hooked twice", matches, refuted=lambda look: not tied(look))


def group_demanded() -> Symptom:
    """Without a group nothing works."""
    nobody = ("'NoneType' object has no attribute 'rank'", "'NoneType' object has no attribute 'size'", "argument: 'group'")

    def matches(look: Look) -> bool:
        alone = look.evidence.ending == RAISED and look.case.groups is None
        return alone and any(text in look.evidence.said for text in nobody)

    return Symptom("group demanded", matches)


def drifted(id: str, parameters: Callable[[dict], dict]) -> Symptom:
    """Ranks that trained together hold different parameters. parameters: what a rank returned -> its parameters."""

    def matches(look: Look) -> bool:
        if look.evidence.ending != RETURNED:
            return False
        held = {rank: parameters(output) for rank, output, _ in look.pairs()}
        return not all(same(held[rank], held[look.case.members(rank)[0]]) for rank in held)

    return Symptom(id, matches)
