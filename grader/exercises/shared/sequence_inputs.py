"""Shards of a sequence in oracles, and what ranks have that each use only their own shard."""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.judging.compare import ANYTHING
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


def wrong_from(right: dict[str, Any], part: str, wrong: Any) -> dict[str, Any]:
    """A result that is right up to one part; that is another, and so may be all that follow."""
    names = list(right)
    return right | dict.fromkeys(names[names.index(part):], ANYTHING) | {part: wrong}


def divided_by_n(case: Case, rank: int, right: Tensor) -> Tensor:
    """A mean over ranks where a sum was wanted."""
    return right / case.group_size(rank)


def of_the_second_call(case: Case, rank: int, right: Tensor) -> Tensor:
    """What call_sequence_function's second call, with −x, gives."""
    return -right


# ── models whose weights are cut ──


def cut_by_name(case: Case, rank: int, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of a plain block's or GPT's tensors, what this rank holds: shards of those that cut_block cuts."""
    return {name: tensor if (dim := cut_dim(name)) is None else own_piece(case, rank, tensor, dim)
            for name, tensor in named.items()}


class CopyOfEachRank(nn.Module):
    """A layer of which each of n ranks has a copy that meets its own positions only."""

    def __init__(self, layer: nn.Module, n: int):
        super().__init__()
        self.copies = nn.ModuleList(copy.deepcopy(layer) for _ in range(n))

    def forward(self, x: Tensor) -> Tensor:
        shards = x.chunk(len(self.copies))
        return torch.cat([layer(shard) for layer, shard in zip(self.copies, shards, strict=True)])


def own_gradients(case: Case, rank: int, model: nn.Module, layers: Iterable[str],
                  backward: Callable[[nn.Module], Any]) -> dict[str, Tensor]:
    """What of these layers' gradients comes from this rank's own positions, of parameters that every rank has whole.

    backward(model) is a pass of the plain model, with all ranks' positions, forward and back.
    """
    n, r = len(case.members(rank)), case.group_rank(rank)
    copies = {layer: CopyOfEachRank(model.get_submodule(layer), n) for layer in layers}
    for layer, each in copies.items():
        parent, _, name = layer.rpartition(".")
        setattr(model.get_submodule(parent), name, each)
    backward(model)
    return {f"{layer}.{name}": p.grad for layer, each in copies.items() for name, p in each.copies[r].named_parameters()
            if cut_dim(f"{layer}.{name}") is None}
