"""What is demanded of case_10, and how it can fail."""

import torch.nn.functional as F

from grader.exercises.technique.hunted import ALIKE, repaired, weights_before
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.judging.exercise import Demand, Look
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.hunted import GATHERED

EXCHANGES = 4  # of the whole sequence, by all-reduces: two forward, two backward


def _norm_bytes(look: Look, rank: int) -> int:
    """Of the norm's gradients, in all steps."""
    return sum(g.nbytes for one in look.right[rank] for name, g in one["gradients"].items() if name.startswith("norm"))


def _limit(look: Look, rank: int) -> float:
    """The exchanges that the program had, and the norm's gradients."""
    n = look.case.group_size(rank)
    whole = n * sum(x.nbytes for x, _ in look.case.inputs[rank]["batches"])
    return bytes_sent_per_rank("all_reduce", EXCHANGES * whole + _norm_bytes(look, rank), n)


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    """Two of the exchanges gather, two reduce; and then the norm's gradients."""
    whole = look.case.group_size(rank) * sum(x.nbytes for x, _ in look.case.inputs[rank]["batches"])
    return [("all_gather", EXCHANGES / 2 * whole), ("reduce_scatter", EXCHANGES / 2 * whole),
            ("all_reduce", _norm_bytes(look, rank))]


def _other_pieces(look: Look, rank: int) -> str:
    """In each step a rank's own positions are gathered once, behind the norm."""
    found = [span.facts["total"] for span in spans_if_any(look, rank, GATHERED)]
    batches = look.case.inputs[rank]["batches"]
    if len(found) != len(batches):
        return f"rank {rank} gathered {len(found)} pieces in {len(batches)} steps"
    for step, (x_PD, _) in enumerate(batches):
        weights = weights_before(look, rank, step)
        due = F.layer_norm(x_PD, x_PD.shape[-1:], weights["norm.weight"], weights["norm.bias"]).sum().item()
        if not abs(found[step] - due) < ALIKE:
            return f"what rank {rank} gathered in step {step} are not its positions behind the norm"
    return ""


TECHNIQUE = repaired(_limit, _needed, Demand(
    "other pieces", "each step gathers a rank's positions behind the norm",
    "The notes are right, but what is gathered is not what the program gathers: leave the forward pass as it is, and repair "
    "what comes after the backward pass.", on_each_rank(_other_pieces), for_right_values=True))
