"""What each c10d operation sends and receives, as plain facts of a call."""

import functools
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from utils.costs.formulas import bytes_sent_per_rank


@dataclass(frozen=True)
class Operation:
    """One c10d operator: the name people use, and the names of its schema arguments that hold the tensors."""

    name: str
    sends: str
    receives: str


OPERATIONS = {
    "allreduce_": Operation("all_reduce", "tensors", "tensors"),
    "allreduce_coalesced_": Operation("all_reduce", "tensors", "tensors"),
    "broadcast_": Operation("broadcast", "tensors", "tensors"),
    "reduce_": Operation("reduce", "tensors", "tensors"),
    "allgather_": Operation("all_gather", "input_tensors", "output_tensors"),
    "_allgather_base_": Operation("all_gather", "input_tensor", "output_tensor"),
    "allgather_coalesced_": Operation("all_gather", "input_list", "output_lists"),
    "allgather_into_tensor_coalesced_": Operation("all_gather", "inputs", "outputs"),
    "reduce_scatter_": Operation("reduce_scatter", "input_tensors", "output_tensors"),
    "_reduce_scatter_base_": Operation("reduce_scatter", "input_tensor", "output_tensor"),
    "reduce_scatter_tensor_coalesced_": Operation("reduce_scatter", "inputs", "outputs"),
    "gather_": Operation("gather", "input_tensors", "output_tensors"),
    "gather_into_tensor_": Operation("gather", "input_tensor", "output_tensor"),
    "scatter_": Operation("scatter", "input_tensors", "output_tensors"),
    "alltoall_": Operation("all_to_all", "input_tensors", "output_tensors"),
    "alltoall_base_": Operation("all_to_all", "input", "output"),
    "barrier": Operation("barrier", "", ""),
    "monitored_barrier_": Operation("barrier", "", ""),
    "send": Operation("send", "tensors", ""),
    "recv_": Operation("recv", "", "tensors"),
    "recv_any_source_": Operation("recv", "", "tensors"),
}
POINT_TO_POINT = frozenset({"send", "recv"})
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})


def flat_tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument that is a tensor, a list of tensors or a list of lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat_tensors(item)]
    return []


def signature(operator: str, arguments: dict[str, Any]) -> tuple:
    """What `describe` makes its facts of, apart from the group: it costs a third of them."""
    parts, of_tensors = [operator], _TENSORS_OF[operator]
    for key, value in arguments.items():
        if key in of_tensors:
            for tensor in flat_tensors(value):
                parts += (tensor.shape, tensor.dtype)
                if tensor.layout is torch.sparse_coo:
                    parts.append(tensor._nnz())
            parts.append(key)
        elif key in _NUMBERS:
            parts.append(tuple(value) if isinstance(value, list) else value)
        elif key == "reduce_op":
            parts.append(_number_of(value))
    return tuple(parts)


_TENSORS_OF = {operator: {operation.sends, operation.receives} for operator, operation in OPERATIONS.items()}
_NUMBERS = {"root_rank", "dst", "src", "tag", "input_split_sizes", "output_split_sizes"}


class CallFacts(msgspec.Struct, kw_only=True):
    """What a rank says of a call, but for its number and time. Ranks in `root` and `peer` are ranks within the group.

    bytes: of the tensors that the call names; bytes_given: handed to the transport; bytes_formula: sent by the ring formula.
    element_count: that all ranks of the group must agree on. splits: of an all-to-all, elements to and from each rank.
    waits: the wait follows at once, on the main thread. alone: no other thread was about. thread: that called, if not the
    main one. source: file, line, function. repeats: it fills one tensor twice. is_direct: the program's own code called.
    made: of a new_group with use_local_synchronization, in how many groups the rank was.
    """

    op: str
    group: str
    members: list[int]
    dtype: str = ""
    shape: list[int] = []
    element_count: int = 0
    bytes: int = 0
    bytes_given: int = 0
    bytes_formula: float = 0.0
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    reduce_op: str | None = None
    splits: tuple[list[int], list[int]] | None = None
    is_async: bool = False
    waits: bool = False
    alone: bool = True
    source: tuple[str, int, str] | None = None
    thread: str | None = None
    repeats: bool = False
    is_direct: bool = False
    made: int = 0

    @property
    def is_from_anybody(self) -> bool:
        """A receive that names no sender."""
        return self.op == "recv" and self.peer is None


def describe(operator: str, arguments: dict[str, Any], group_rank: int, group_size: int, **about: Any) -> CallFacts:
    """Facts about one call, seen from one rank of its group. about: what its arguments do not tell."""
    operation = OPERATIONS[operator]
    sent, received = (flat_tensors(arguments.get(key)) for key in (operation.sends, operation.receives))
    shown = sent or received
    root = arguments.get("root_rank") if operation.name in ROOTED else None
    gives = operation.name not in ("broadcast", "scatter") or group_rank == root
    reduce_op = arguments.get("reduce_op")
    facts = CallFacts(
        op=operation.name, dtype=str(shown[0].dtype).removeprefix("torch.") if shown else "",
        shape=list(shown[0].shape) if len(shown) == 1 else [len(shown), *shown[0].shape] if shown else [],
        bytes=sum(map(_nbytes, shown)), bytes_given=sum(map(_nbytes, sent)) if gives else 0,
        root=root, peer=arguments.get("dst", arguments.get("src")), tag=arguments.get("tag", 0),
        reduce_op=None if reduce_op is None else reduce_op_name(reduce_op),
        splits=_splits(operation.name, arguments, sent, received, group_size),
        element_count=_unit_elements(operation.name, sent, received), **about)
    facts.bytes_formula = _formula_bytes(facts, sent, received, group_rank, group_size)
    return facts


def _nbytes(tensor: torch.Tensor) -> int:
    """Of what travels: of a sparse tensor its indices and values."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices().nbytes + tensor._values().nbytes
    return tensor.nbytes


def _number_of(reduce_op: Any) -> int:
    """That of a ReduceOp; an operator is given it in a box, whose `op` is a method."""
    return int(reduce_op.op() if isinstance(reduce_op, torch.ScriptObject) else reduce_op.op)


def reduce_op_name(reduce_op: Any) -> str:
    """"SUM" for ReduceOp.SUM, in its box or out of it."""
    return _name_of(_number_of(reduce_op))


@functools.cache
def _name_of(number: int) -> str:
    return torch.distributed.ReduceOp.RedOpType(number).name


def _unit_elements(op: str, sent: list, received: list) -> int:
    """The element count that every rank of the group must agree on (0 where there is none)."""
    if op in ("reduce_scatter", "scatter"):
        return sum(t.numel() for t in received)
    if op in ("all_to_all", "barrier"):
        return 0
    return sum(t.numel() for t in sent or received)


def _splits(op: str, arguments: dict, sent: list, received: list, group_size: int) -> tuple[list[int], list[int]] | None:
    """All-to-all only: elements to each rank, elements from each rank."""
    if op != "all_to_all":
        return None
    if isinstance(arguments.get("input_tensors"), (list, tuple)):
        return [t.numel() for t in sent], [t.numel() for t in received]
    result = []
    for tensor, key in ((sent[0], "input_split_sizes"), (received[0], "output_split_sizes")):
        rows = arguments.get(key) or [tensor.shape[0] // group_size] * group_size
        row_elements = tensor.numel() // max(1, tensor.shape[0])
        result.append([row * row_elements for row in rows])
    return tuple(result)


def _formula_bytes(facts: CallFacts, sent: list, received: list, group_rank: int, group_size: int) -> float:
    op = facts.op
    if op == "send":
        return facts.bytes
    if op in ("recv", "barrier"):
        return 0
    if op == "gather":
        return 0 if group_rank == facts.root else facts.bytes_given
    if op == "scatter":
        return facts.bytes_given * (group_size - 1) / group_size
    if op == "all_to_all":
        itemsize = sent[0].itemsize if sent else 0
        return sum(count for peer, count in enumerate(facts.splits[0]) if peer != group_rank) * itemsize
    total = facts.bytes_given
    if op == "all_gather":
        total *= group_size
    elif op == "broadcast":
        total = sum(map(_nbytes, received))
    return bytes_sent_per_rank(op, total, group_size)


# ── calls of different ranks ──


def peer_of(call: CallFacts) -> int | None:
    """The rank at the other end of a send or receive; None for a receive from anybody."""
    return None if call.peer is None else call.members[call.peer]


def root_of(call: CallFacts) -> int | None:
    """The rank that a collective starts from or ends at; None where it has no root."""
    return None if call.root is None else call.members[call.root]
