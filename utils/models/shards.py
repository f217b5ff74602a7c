"""A rank's part: of a size, of a tensor, of a transformer block."""

import copy

import torch.distributed as dist
from torch import Tensor, nn

from utils.models.blocks import TransformerBlock

CUT_DIMS = {"qkv.weight": 0, "qkv.bias": 0, "up.weight": 0, "up.bias": 0, "out.weight": 1, "down.weight": 1}


def own_slice(size: int, group: dist.ProcessGroup | None, what: str = "features") -> slice:
    """Where this rank's part lies when `size` things are divided evenly among the group: rank r's are the r-th n-th.

    what: what is divided, in the plural, for the message.
    Raises: ValueError naming both sizes if the number of ranks does not divide `size`.
    """
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    if size % n:
        raise ValueError(f"{size} {what} cannot be divided evenly among {n} ranks (rank {rank}): {size % n} would be left "
                         f"over. Choose a number of ranks that divides {size}, or pad to {size + -size % n}.")
    return slice(rank * (size // n), (rank + 1) * (size // n))


def own_part(tensor: Tensor, dim: int, group: dist.ProcessGroup | None, what: str = "features") -> Tensor:
    """This rank's part of `tensor` along `dim`, as a copy that does not keep the whole alive, and has no gradient's history.

    Shapes: (…, S, …) → (…, S/n, …).  Raises: ValueError as own_slice.
    """
    part = own_slice(tensor.shape[dim], group, what)
    return tensor.detach().narrow(dim, part.start, part.stop - part.start).clone()


def cut_block(block: TransformerBlock, rank: int, n_ranks: int) -> TransformerBlock:
    """A copy of `block` in which qkv and up have this rank's rows, out and down its columns; all else is whole.

    Its names are those of `block`. The biases of out and down are whole: they belong to the sum over ranks, once.
    Raises: ValueError if the ranks do not divide the heads.
    """
    if block.n_heads % n_ranks:
        raise ValueError(f"{n_ranks} ranks do not divide {block.n_heads} heads: each rank takes whole heads, so choose a "
                         f"number of heads that is a multiple of the ranks")
    cut = copy.deepcopy(block, {id(p): p for p in block.parameters()})  # its parameters are copied below, what is cut never
    for name, whole in block.named_parameters():
        layer, _, kind = name.rpartition(".")
        own = whole.detach().clone() if name not in CUT_DIMS else piece(whole.detach(), rank, n_ranks, CUT_DIMS[name])
        setattr(cut.get_submodule(layer), kind, nn.Parameter(own, requires_grad=whole.requires_grad))
    return cut


def cut_dim(name: str) -> int | None:
    """The dim along which `cut_block` cuts this parameter of a block, or of a GPT of blocks; None if it stays whole."""
    return CUT_DIMS.get(".".join(name.split(".")[-2:]))  # of blocks.0.up.weight: up.weight


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
