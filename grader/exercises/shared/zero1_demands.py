"""Demands on optimizer state in shards, and a slip, shared by the exercises of ZeRO-1 and ZeRO-2."""

from __future__ import annotations

from collections.abc import Callable

import torch

from grader.calling.training import make_optimizer
from grader.evidence.evidence import RAISED
from grader.exercises.shared.one_process import model_of, some_gradients
from grader.judging.demands import group_size
from grader.judging.exercise import Demand, Look, Symptom

STATE_SLACK_BYTES = 64  # a step count a tensor, and such
CHECK_BYTES = 64  # a tensor: a wrapper may ask whether all ranks start equal (utils.costs.replicas)


def whole_state(look: Look, rank: int) -> list[int]:
    """Bytes of the state that one process keeps, tensor by tensor."""
    model = model_of(look.case, rank)
    optimizer = make_optimizer(look.case.inputs[rank], [p for p in model.parameters() if p.requires_grad])
    for name, gradient in some_gradients(look.case, rank).items():
        model.get_parameter(name).grad = gradient
    optimizer.step()
    return [sum(value.nbytes for value in state.values() if isinstance(value, torch.Tensor))
            for state in optimizer.state.values()]


def state_held(look: Look, rank: int) -> int:
    """Bytes of optimizer state that a rank had in the end."""
    memory = look.evidence.memory[rank]
    return memory.now["optimizer state"] if memory else 0


def check_bytes(look: Look, rank: int, times: int = 1) -> int:
    """What asking `times` times whether all ranks are equal may send."""
    return times * CHECK_BYTES * (1 + len(list(model_of(look.case, rank).parameters())))


def something_sharded() -> Demand:
    """Gate: not every rank of a group holds the state of all tensors."""

    def judge(look: Look) -> tuple[bool, str]:
        for members in {look.case.members(rank) for rank in look.working}:
            whole = sum(whole_state(look, members[0]))
            if len(members) > 1 and whole and all(state_held(look, rank) >= whole for rank in members):
                return False, f"every rank holds all {whole:,} B of it"
        return True, ""

    return Demand("not sharded", "optimizer state in shards", (
        "Every rank holds the optimizer's state of all parameters, and all do the same update: that is data parallelism, "
        "and saves nothing. Give each rank's wrapped optimizer its own share only, and send round what it updated."),
        judge, gate=True)


def state_divided(allowed: Callable[[Look, int], float], hint: str) -> Demand:
    """No rank holds more than allowed(look, rank) bytes of state."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            held, limit = state_held(look, rank), allowed(look, rank)
            if held > limit:
                return False, f"rank {rank} holds {held:,} B of {sum(whole_state(look, rank)):,} B, allowed {limit:,.0f} B"
        return True, ""

    return Demand("state not divided", "each rank holds its share of the optimizer's state", hint, judge)


def balanced_share(look: Look, rank: int) -> float:
    """By whole tensors: an equal share and half the largest tensor's state, or that tensor's alone."""
    sizes, n = whole_state(look, rank), group_size(look, rank)
    largest = max(sizes, default=0)
    return max(largest, sum(sizes) / n + largest / 2) + STATE_SLACK_BYTES


def flat_share(look: Look, rank: int) -> float:
    """Each tensor cut into n pieces, rounded up."""
    n = group_size(look, rank)
    sizes = [gradient.numel() for gradient in some_gradients(look.case, rank).values()]
    longer = max((-(-size // n) * n / size for size in sizes), default=1.0)
    return sum(whole_state(look, rank)) / n * longer + STATE_SLACK_BYTES * len(sizes)


def other_type() -> Symptom:
    """The output of a collective has not the type of its input."""
    return Symptom("other dtype", "Output and input are of different types (the models here compute in float64): "
                                  "flat.new_empty(…) and torch.empty_like(…) make a tensor of the same type.",
                   lambda look: look.evidence.ending == RAISED and any(
                       text in look.evidence.error for text in ("dtype()", "same type")))  # of gloo, of NCCL
