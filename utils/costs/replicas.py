"""Whether the ranks of a group hold the same tensors: what a wrapper asks before it divides work on them."""

import zlib
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

_TRY = "Every rank must hold it whole and equal: is it a shard, or was broadcast_model (unit 02) forgotten?"


def require_equal(tensors: Iterable[Tensor], group: dist.ProcessGroup | None = None) -> None:
    """Go on only if this rank's tensors are those of the group's rank 0: as many, of the same shapes and types, equal bits.

    Shapes: any, k tensors on every rank.
    Cost: rank 0 broadcasts 8 and then 24·k bytes; every rank reads its tensors once (on the CPU). Nothing for one rank.
    Raises: ValueError on the ranks that differ from rank 0, with the first tensor that does, both ranks, and what to try.
    """
    tensors = list(tensors)
    if dist.get_world_size(group) == 1:
        return
    device = tensors[0].device if tensors else None
    simulated = not all(map(_has_numbers, tensors))  # then the same messages go, and there is nothing to compare
    count = torch.tensor([len(tensors)], device=device)
    dist.broadcast(count, group=group, group_src=0)
    own_K3 = torch.tensor([_facts(tensor) for tensor in tensors], dtype=torch.int64, device=device).view(-1, 3)
    first_K3 = own_K3 if simulated or dist.get_rank(group) == 0 else own_K3.new_empty(int(count), 3)
    dist.broadcast(first_K3, group=group, group_src=0)
    if simulated:
        return
    first, here = dist.get_global_rank(group or dist.group.WORLD, 0), dist.get_rank()
    if len(tensors) != len(first_K3):
        raise ValueError(f"rank {first} holds {len(first_K3)} tensors, rank {here} {len(tensors)}: every rank must name the "
                         "same ones, in the same order")
    for number, (own, other) in enumerate(zip(own_K3.tolist(), first_K3.tolist(), strict=True)):
        if own != other:
            raise ValueError(f"tensor {number} of {len(tensors)} differs: {_difference(tensors[number], own, other, first)} "
                             f"on rank {here}. {_TRY}")


def _has_numbers(tensor: Tensor) -> bool:
    return not hasattr(tensor, "fake_mode")


def _facts(tensor: Tensor) -> tuple[int, int, int]:
    """(how many numbers, checksum of shape and dtype, checksum of the bits, if there are any)"""
    bits = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    of_bits = zlib.crc32(bits.numpy()) if _has_numbers(tensor) else 0
    return tensor.numel(), zlib.crc32(f"{tuple(tensor.shape)} {tensor.dtype}".encode()), of_bits


def _difference(tensor: Tensor, own: list[int], other: list[int], first: int) -> str:
    form = f"shape {tuple(tensor.shape)}, {str(tensor.dtype).removeprefix('torch.')}"
    if own[0] != other[0]:
        return f"{other[0]:,} elements on rank {first}, {own[0]:,} ({form})"
    if own[1] != other[1]:
        return f"as many elements as on rank {first}, but in another shape or type: {form}"
    return f"the same {form} as on rank {first}, but other values"
