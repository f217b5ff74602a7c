"""Shards of a sequence in oracles."""

from collections.abc import Sequence

import torch
from torch import Tensor

from grader.judging.exercise import Case, Draw
from utils.models.shards import cut_dim


def x_and_weights(draw: Draw, n: int, of_x: Sequence[int], of_y: Sequence[int],
                  dtype: torch.dtype = torch.float64) -> tuple[dict[str, Tensor], ...]:
    """For each of n ranks x, and the gradient of y, in the shapes of x and y; in float64 numbers that need all digits."""
    divisor = 7 if dtype == torch.float64 else 1
    return tuple({"x": draw.tensor(*of_x, dtype=dtype) / divisor, "weights": draw.tensor(*of_y, dtype=dtype) / divisor}
                 for _ in range(n))


def joined(case: Case, rank: int, name: str = "x") -> Tensor:
    """The whole tensor of which each member has a shard along the sequence, which is dim 0."""
    return torch.cat(case.peers_inputs(rank, name))


def own_piece(case: Case, rank: int, whole: Tensor, dim: int = 0) -> Tensor:
    """This rank's shard."""
    return whole.chunk(len(case.members(rank)), dim)[case.group_rank(rank)].clone()


# ── models whose weights are cut ──


def cut_by_name(case: Case, rank: int, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of a plain block's or GPT's tensors, what this rank holds: shards of those that cut_block cuts."""
    return {name: tensor if (dim := cut_dim(name)) is None else own_piece(case, rank, tensor, dim)
            for name, tensor in named.items()}
