"""torch's functional collectives on tensors without numbers: each makes the call of its group that it makes in C++."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.multiprocessing.reductions import StorageWeakRef

from utils.simulation.refusals import NotSimulated

_REDUCE_OPS = {name: getattr(dist.ReduceOp, name.upper())
               for name in ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")}


class FunctionalCollectives:
    """Takes the operators of _c10d_functional. What each returns is waited for by wait_tensor(), once."""

    def __init__(self):
        self._works: dict[int, tuple[StorageWeakRef, dist.Work]] = {}  # by storage, which is kept from being reused

    def __call__(self, func: Any, args: Sequence, kwargs: dict[str, Any]) -> Any:
        """What `func` returns.  Raises: NotSimulated for an operator that is not known here."""
        operator = getattr(self, f"_{func._opname}", None)
        if operator is None:
            raise NotSimulated(func)
        return operator(*args, **kwargs)

    def _begun(self, work: dist.Work, *results: torch.Tensor) -> None:
        for result in results:
            storage = result.untyped_storage()
            self._works[storage._cdata] = StorageWeakRef(storage), work

    def _wait_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        _, work = self._works.pop(tensor.untyped_storage()._cdata, (None, None))
        if work is not None:
            work.wait()
        return tensor

    # ── reductions ──

    def _all_reduce_(self, tensor: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
        options = _options(c10d.AllreduceOptions, reduceOp=_REDUCE_OPS[reduce_op])
        self._begun(_group(group_name).allreduce([tensor], options), tensor)
        return tensor

    def _all_reduce(self, tensor: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
        return self._all_reduce_(_copy(tensor), reduce_op, group_name)

    def _all_reduce_coalesced_(self, tensors: list[torch.Tensor], reduce_op: str, group_name: str) -> list[torch.Tensor]:
        options = _options(c10d.AllreduceCoalescedOptions, reduceOp=_REDUCE_OPS[reduce_op])
        self._begun(_group(group_name).allreduce_coalesced(tensors, options), *tensors)
        return tensors

    def _all_reduce_coalesced(self, tensors: list[torch.Tensor], reduce_op: str, group_name: str) -> list[torch.Tensor]:
        return self._all_reduce_coalesced_([*map(_copy, tensors)], reduce_op, group_name)

    def _reduce_scatter_tensor_out(self, tensor, reduce_op: str, size: int, group_name: str, *, out) -> torch.Tensor:
        options = _options(c10d.ReduceScatterOptions, reduceOp=_REDUCE_OPS[reduce_op])
        self._begun(_group(group_name).reduce_scatter_single(out, tensor.contiguous(), options), out)
        return out

    def _reduce_scatter_tensor(self, tensor: torch.Tensor, reduce_op: str, size: int, group_name: str) -> torch.Tensor:
        return self._reduce_scatter_tensor_out(tensor, reduce_op, size, group_name, out=_part(tensor, size))

    def _reduce_scatter_tensor_coalesced(self, tensors, reduce_op: str, size: int, group_name: str) -> list[torch.Tensor]:
        parts = [_part(tensor, size) for tensor in tensors]
        options = _options(c10d.ReduceScatterOptions, reduceOp=_REDUCE_OPS[reduce_op])
        self._begun(_group(group_name).reduce_scatter_tensor_coalesced(parts, tensors, options), *parts)
        return parts

    # ── gathering and moving ──

    def _all_gather_into_tensor_out(self, tensor, size: int, group_name: str, *, out: torch.Tensor) -> torch.Tensor:
        work = _group(group_name).all_gather_single(out, tensor.contiguous(), _options(c10d.AllgatherOptions))
        self._begun(work, out)
        return out

    def _all_gather_into_tensor(self, tensor: torch.Tensor, size: int, group_name: str) -> torch.Tensor:
        return self._all_gather_into_tensor_out(tensor, size, group_name, out=_whole(tensor, size))

    def _all_gather_into_tensor_coalesced(self, tensors, size: int, group_name: str) -> list[torch.Tensor]:
        wholes = [_whole(tensor, size) for tensor in tensors]
        work = _group(group_name).all_gather_into_tensor_coalesced(wholes, tensors, _options(c10d.AllgatherOptions))
        self._begun(work, *wholes)
        return wholes

    def _all_to_all_single(self, tensor, output_splits: list[int], input_splits: list[int], group_name: str) -> torch.Tensor:
        out = tensor.new_empty((sum(output_splits), *tensor.shape[1:]))
        work = _group(group_name).alltoall_base(out, tensor.contiguous(), list(output_splits), list(input_splits),
                                                _options(c10d.AllToAllOptions))
        self._begun(work, out)
        return out

    def _broadcast_(self, tensor: torch.Tensor, src: int, group_name: str) -> torch.Tensor:
        self._begun(_group(group_name).broadcast([tensor], _options(c10d.BroadcastOptions, rootRank=src)), tensor)
        return tensor

    def _broadcast(self, tensor: torch.Tensor, src: int, group_name: str) -> torch.Tensor:
        return self._broadcast_(_copy(tensor), src, group_name)

    def _isend(self, tensor: torch.Tensor, dst: int, tag: int, group_name: str) -> torch.Tensor:
        self._begun(_group(group_name).send([tensor], dst, tag), tensor)
        return tensor

    def _irecv(self, tensor: torch.Tensor, src: int, tag: int, group_name: str) -> torch.Tensor:
        self._begun(_group(group_name).recv([tensor], src, tag), tensor)
        return tensor

    def _batch_p2p_ops(self, ops: list[str], peers: list[int], tags: list[int], tensors: list[torch.Tensor],
                       group_name: str) -> list[torch.Tensor]:
        for op, peer, tag, tensor in zip(ops, peers, tags, tensors, strict=True):
            (self._isend if op == "isend" else self._irecv)(tensor, peer, tag, group_name)
        return tensors


def _group(name: str) -> dist.ProcessGroup:
    return dist.distributed_c10d._resolve_process_group(name)


def _options(kind: Callable, **settings: Any) -> Any:
    options = kind()
    for name, value in settings.items():
        setattr(options, name, value)
    options.asyncOp = True
    return options


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _part(tensor: torch.Tensor, size: int) -> torch.Tensor:
    return tensor.new_empty((tensor.shape[0] // size, *tensor.shape[1:]))


def _whole(tensor: torch.Tensor, size: int) -> torch.Tensor:
    return tensor.new_empty((size * tensor.shape[0], *tensor.shape[1:]))
