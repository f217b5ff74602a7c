"""What is demanded of case_8, and how it can fail."""

from grader.exercises.technique.hunted import gradients_once, gradients_summed, repaired
from grader.judging.exercise import Demand, Look


def _one_a_step(look: Look) -> tuple[bool, str]:
    """Where no more is sent than should be: else there is something else to fix."""
    for rank in look.working:
        made, steps = len(look.evidence.trace.of(rank, "all_reduce")), len(look.right[rank])
        if made > steps and look.evidence.trace.bytes_sent(rank) <= gradients_once(look, rank):
            return False, f"rank {rank} made {made} all-reduces in {steps} steps"
    return True, ""


TECHNIQUE = repaired(
    gradients_once,
    gradients_summed,
    Demand("too many messages", "one all-reduce a step",
           "Right, but the gradients travel in several messages: the program puts all of them into one flat row, and that "
           "was no mistake.", _one_a_step, forbids=True),
)
