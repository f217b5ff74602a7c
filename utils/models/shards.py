"""Which part of a size belongs to this rank, and that part of a tensor, in a storage of its own."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


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
