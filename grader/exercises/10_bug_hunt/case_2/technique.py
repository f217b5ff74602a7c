"""What is demanded of case_2, and how it can fail."""

from grader.exercises.technique.hunted import repaired
from grader.judging.exercise import Look
from grader.judging.needs import each_way
from utils.costs.formulas import bytes_sent_per_rank


def _limit(look: Look, rank: int) -> float:
    """In each step the outputs among the ranks that share a model, and the gradients among the copies."""
    tp, notes = look.case.inputs[rank]["tp"], look.right[rank]
    outputs = sum(y.nbytes for _, y in look.case.inputs[rank]["batches"])
    gradients = sum(gradient.nbytes for one in notes for gradient in one["gradients"].values())
    return (bytes_sent_per_rank("all_reduce", outputs, tp)
            + bytes_sent_per_rank("all_reduce", gradients, look.case.world_size // tp))


def _needed(look: Look, rank: int) -> float:
    tp, notes = look.case.inputs[rank]["tp"], look.right[rank]
    outputs = sum(y.nbytes for _, y in look.case.inputs[rank]["batches"])
    gradients = sum(gradient.nbytes for one in notes for gradient in one["gradients"].values())
    return outputs * (tp > 1) + gradients * (look.case.world_size > tp)


TECHNIQUE = repaired(_limit, each_way(_needed))
