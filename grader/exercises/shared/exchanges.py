"""What travels between ranks that know how many rows each has for which of another one's experts."""

import torch
from torch import Tensor

from grader.judging.exercise import Case


def came(case: Case, rank: int) -> Tensor:
    """(n, e): how many rows each member has for each of this rank's experts."""
    return torch.stack([counts[case.group_rank(rank)] for counts in case.peers_inputs(rank, "counts")])


def received(case: Case, rank: int) -> list[Tensor]:
    """The rows that each member has for this rank."""
    return [piece(rows, counts, case.group_rank(rank)) for rows, counts in zip(
        case.peers_inputs(rank, "rows"), case.peers_inputs(rank, "counts"), strict=True)]


def given_back(case: Case, rank: int) -> list[Tensor]:
    """The gradient of what each member received from this rank."""
    found = []
    for member in case.members(rank):
        per_sender = case.inputs[member]["weights"].split(came(case, member).sum(1).tolist())
        found.append(per_sender[case.group_rank(rank)])
    return found


def piece(rows: Tensor, counts: Tensor, to: int) -> Tensor:
    """Of a rank's rows those for one other rank."""
    return rows.split(counts.sum(1).tolist())[to]
