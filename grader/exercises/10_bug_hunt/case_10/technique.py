"""What is demanded of case_10, and how it can fail."""

from grader.exercises.technique.hunted import repaired
from grader.judging.exercise import Look
from utils.costs.formulas import bytes_sent_per_rank

EXCHANGES = 4  # of the whole sequence, by all-reduces: two forward, two backward


def _limit(look: Look, rank: int) -> float:
    """The exchanges that the program had, and the norm's gradients."""
    n = look.case.group_size(rank)
    whole = n * sum(x.nbytes for x, _ in look.case.inputs[rank]["batches"])
    norm = sum(g.nbytes for one in look.right[rank] for name, g in one["gradients"].items() if name.startswith("norm"))
    return bytes_sent_per_rank("all_reduce", EXCHANGES * whole + norm, n)


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    """Two of the exchanges gather, two reduce."""
    whole = look.case.group_size(rank) * sum(x.nbytes for x, _ in look.case.inputs[rank]["batches"])
    return [("all_gather", EXCHANGES / 2 * whole), ("reduce_scatter", EXCHANGES / 2 * whole)]


TECHNIQUE = repaired(_limit, _needed)
