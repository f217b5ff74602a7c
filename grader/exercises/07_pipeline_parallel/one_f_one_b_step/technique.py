"""How one_f_one_b_step must be done, and how it can fail."""

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


TECHNIQUE = step_technique(
    passes=(
        in_flight_at_most(lambda p, r, m: min(p - r, m), "at most p − r micro-batches in flight on stage r",
                          "The gradients are right, but activations pile up: after its warm-up of p − 1 − r (each turn "
                          "then begins with a forward pass) a stage starts a new micro-batch only when it has done a "
                          "backward pass for one, and backward frees that one's (no retain_graph)."),
        order(wanted_order, "another order", "warm-up of p − 1 − r, then forward and backward in turn",
              "The gradients are right, but the passes come in another order than 1F1B's: min(p − 1 − r, n_micro) forward "
              "passes first, then one forward and one backward in turn, then the backward passes that are left."),
        Demand("two under way", "one message under way in each direction",
               "The gradients are right, but a message starts while the last one in its direction has not been waited for, "
               "so two tensors are held: wait for the old Work first, then send.",
               on_each_rank(_two_under_way), forbids=True),
    ),
    crossing="A stage sends an output to the next one, which at that moment sends a gradient back: each waits for the other "
             "to receive. Use isend, and wait for the Works later.",
)
