"""Cuts for sequence parallelism: a block's weights by heads, columns and rows, and a tensor's piece of the sequence."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from utils.models.blocks import TransformerBlock

CUT_DIMS = {"qkv.weight": 0, "qkv.bias": 0, "up.weight": 0, "up.bias": 0, "out.weight": 1, "down.weight": 1}


def cut_block(block: TransformerBlock, rank: int, n_ranks: int) -> TransformerBlock:
    """A copy of `block` in which qkv and up have this rank's rows, out and down its columns; all else is whole.

    Its names are those of `block`. The biases of out and down are whole: they belong to the sum over ranks, once.
    Raises: ValueError if the ranks do not divide the heads.
    """
    if block.n_heads % n_ranks:
        raise ValueError(f"{n_ranks} ranks do not divide {block.n_heads} heads: each rank takes whole heads, so choose a "
                         f"number of heads that is a multiple of the ranks")
    cut = copy.deepcopy(block)
    for name, dim in CUT_DIMS.items():
        layer, _, kind = name.partition(".")
        module = cut.get_submodule(layer)
        setattr(module, kind, nn.Parameter(piece(getattr(module, kind).detach(), rank, n_ranks, dim)))
    return cut


def replicated(block: nn.Module) -> list[nn.Parameter]:
    """The parameters of a block that `cut_block` leaves whole: every rank has them, and sees a part of the sequence."""
    return [p for name, p in block.named_parameters() if name not in CUT_DIMS]


def piece(x: Tensor, rank: int, n_ranks: int, dim: int = 0) -> Tensor:
    """The rank-th of n equal pieces of x along dim, in memory of its own.

    Raises: ValueError if the ranks do not divide that size.
    """
    size = x.shape[dim]
    if size % n_ranks or not size:
        raise ValueError(f"{n_ranks} ranks do not divide a size of {size} (dim {dim} of {list(x.shape)}): pad it, or choose "
                         f"a multiple of {n_ranks}")
    return x.chunk(n_ranks, dim)[rank].clone()
