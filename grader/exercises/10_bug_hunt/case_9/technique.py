"""What is demanded of case_9, and how it can fail."""

from grader.exercises.technique.hunted import repaired
from grader.judging.exercise import Look
from grader.judging.symptoms import raised
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.hunted import HIDDEN, IN, OUT

UP_BYTES, DOWN_BYTES = 8 * IN * HIDDEN, 8 * HIDDEN * OUT


def _limit(look: Look, rank: int) -> float:
    """In each step both weights are gathered and both gradients reduced; one gather more of each at the end."""
    n_steps, n = len(look.right[rank]), look.case.group_size(rank)
    return (bytes_sent_per_rank("all_gather", (n_steps + 1) * (UP_BYTES + DOWN_BYTES), n)
            + bytes_sent_per_rank("all_reduce", n_steps * (UP_BYTES + DOWN_BYTES), n))


TECHNIQUE = repaired(
    _limit,
    lambda look, rank: [(op, len(look.right[rank]) * (UP_BYTES + DOWN_BYTES)) for op in ("all_gather", "reduce_scatter")],
    symptoms=(raised("is invalid for input of size", "mixed up"),),
)
