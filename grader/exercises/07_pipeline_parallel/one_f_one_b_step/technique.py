"""How one_f_one_b_step must be done, and how it can fail."""

import itertools

from grader.exercises.technique.pipelines import in_flight_at_most, order, step_technique
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.judging.exercise import Demand, Look
from utils.trace.trace import Call


def wanted_order(p: int, r: int, m: int) -> str:
    """Stage r of p: its warm-up, then one forward and one backward in turn, then the backward passes that are left."""
    warm_up = min(p - 1 - r, m)
    return "F" * warm_up + "FB" * (m - warm_up) + "B" * warm_up


def _two_under_way(look: Look, rank: int) -> str:
    """Two messages at once in one direction, of which the first is waited for later."""
    latest: dict[int | None, Call] = {}
    for call in sorted(look.evidence.trace.of(rank, "send"), key=lambda call: call.number):
        last = latest.get(call.peer)
        if last is not None and last.waited and last.wait_start_s > call.start_s:
            return f"rank {rank} began a message to rank {call.peer} before it waited for the last one"
        latest[call.peer] = call
    return ""


def _held_up(look: Look, rank: int) -> str:
    """A message starts only after the wait for one to another rank, which need not have arrived by then."""
    sends = sorted(look.evidence.trace.of(rank, "send"), key=lambda call: call.number)
    for number, sent in enumerate(sends):
        for other in itertools.takewhile(lambda call, peer=sent.peer: call.peer != peer, sends[number + 1:]):
            if sent.waited and sent.wait_start_s < other.start_s and not _answered(look, rank, sent):
                return f"rank {rank} waited for a message to rank {sent.peer} before it began one to rank {other.peer}"
    return ""


def _answered(look: Look, rank: int, sent: Call) -> bool:
    """By the wait as many messages had come back as were sent, this one among them: so it had arrived."""
    trace = look.evidence.trace
    there = sum(call.peer == sent.peer and call.number <= sent.number for call in trace.of(rank, "send"))
    back = [call for call in trace.of(rank, "recv") if call.peer == sent.peer and call.end_s is not None]
    return sum(call.end_s <= sent.wait_start_s for call in back) >= there


TECHNIQUE = step_technique(
    passes=(
        in_flight_at_most(lambda p, r, m: min(p - r, m), "at most p − r micro-batches in flight on stage r"),
        order(wanted_order, "another order", "warm-up of p − 1 − r, then forward and backward in turn"),
        Demand("two under way", "one message in flight in each direction", on_each_rank(_two_under_way), forbids=True),
        Demand("held up", "no message waits for one to another rank", on_each_rank(_held_up), forbids=True),
    ),
)
