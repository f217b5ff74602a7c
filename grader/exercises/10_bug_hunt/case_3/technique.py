"""What is demanded of case_3, and how it can fail."""

from grader.exercises.technique.hunted import gradients_once, gradients_summed, repaired
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.judging.exercise import Demand, Look

BY_ONE_RANK = {"reduce", "gather", "scatter", "broadcast"}


def _by_one_rank(look: Look, rank: int) -> str:
    used = {call.op for call in look.evidence.trace.of(rank)} & BY_ONE_RANK
    return f"rank {rank} called {' and '.join(sorted(used))}" if used else ""


TECHNIQUE = repaired(
    gradients_once, gradients_summed,
    Demand("by way of one rank", "gradients are all-reduced", on_each_rank(_by_one_rank), for_right_values=True,
           forbids=True))
