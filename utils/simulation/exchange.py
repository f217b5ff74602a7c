"""Known numbers that travel between simulated ranks: sizes, flags and the bytes of objects.

Ranks are recorded one after the other, so a rank may receive what its sender has not told yet. It goes on without the
numbers, as far as it needs none; once the sender has been recorded, it is recorded again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from utils.simulation.shapes import ShapesOnly
from utils.trace.calls import OPERATIONS, POINT_TO_POINT, flat_tensors

Key = tuple  # of a call: its group and which of it, or its ends and which message; with the rank that gives something
Numbers = list[np.ndarray]  # what a rank gives, tensor by tensor

_REDUCE = {
    "SUM": np.sum, "AVG": np.mean, "PRODUCT": np.prod, "MIN": np.min, "MAX": np.max,
    "BAND": np.bitwise_and.reduce, "BOR": np.bitwise_or.reduce, "BXOR": np.bitwise_xor.reduce,
}


@dataclass
class Exchange:
    """Of one rank that is being recorded. known: what all ranks have told so far; told: what this one adds.

    missed: what this one would have received, had it been known.
    """

    rank: int
    known: Mapping[Key, Numbers]
    told: dict[Key, Numbers] = field(default_factory=dict)
    missed: set[Key] = field(default_factory=set)
    _seen: Counter = field(default_factory=Counter)

    def key_of(self, name: str, group: dist.ProcessGroup, arguments: dict[str, Any]) -> Key | None:
        """Which call of its group this is, or which message between its ends; None from anybody. Ask it of every call once.

        name, arguments: of the c10d operator.
        """
        op, lane = OPERATIONS[name].name, (group.group_name,)
        if op in POINT_TO_POINT:
            own, peer = group.rank(), arguments.get("dst", arguments.get("src"))
            if peer is None:
                return None
            lane = (*lane, *((own, peer) if op == "send" else (peer, own)), arguments.get("tag", 0))
        self._seen[lane] += 1
        return (*lane, self._seen[lane])

    def received(self, key: Key | None, name: str, group: dist.ProcessGroup, arguments: dict[str, Any],
                 sent: Numbers | None) -> Numbers | None:
        """Tell what this rank gives, and return what it receives, tensor by tensor; None where that is not known.

        sent: the numbers that it gives, None if they are not known.
        """
        op = OPERATIONS[name].name
        if key is None:
            return None
        if op == "recv":
            return self._given(key)
        if op == "send":
            self._tell(key, sent)
            return None
        members = dist.get_process_group_ranks(group)
        self._tell((*key, self.rank), sent)
        givers = [members[arguments["root_rank"]]] if op in ("broadcast", "scatter") else members
        given = [self._given((*key, giver)) for giver in givers]
        if any(numbers is None for numbers in given):
            return None
        return _outcome(op, arguments, given, members.index(self.rank))

    def _tell(self, key: Key, sent: Numbers | None) -> None:
        if sent is not None:
            self.told[key] = sent

    def _given(self, key: Key) -> Numbers | None:
        numbers = self.told.get(key, self.known.get(key))
        if numbers is None:
            self.missed.add(key)
        return numbers


def _outcome(op: str, arguments: dict[str, Any], given: list[Numbers], place: int) -> Numbers | None:
    """What the member at this place of the group receives. given: by each member, or by the root alone."""
    n, reduce_op = len(given), arguments.get("reduce_op")
    reduced = reduce_op and _REDUCE[dist.ReduceOp.RedOpType(int(reduce_op.op)).name]
    if op == "broadcast":
        return given[0]
    if op == "scatter":
        return [given[0][place]]
    if op in ("reduce", "gather") and place != arguments["root_rank"]:
        return None
    if op in ("gather", "all_gather"):
        return _concatenated(given)
    if op in ("all_reduce", "reduce"):
        return [reduced(np.stack(parts), axis=0) for parts in zip(*given, strict=True)]
    if op == "reduce_scatter":
        whole = [reduced(np.stack(parts), axis=0).reshape(-1) for parts in zip(*given, strict=True)]
        return [whole[place]] if len(whole) == n > 1 else [part.reshape(n, -1)[place] for part in whole]
    if op == "all_to_all":
        return [(parts if len(parts) == n else parts[0].reshape(n, -1))[place] for parts in given]
    return None


def _concatenated(given: list[Numbers]) -> Numbers:
    """Tensor by tensor of each member: one after the other."""
    return [part for numbers in given for part in numbers]


# ── between tensors and numbers ──


def numbers_sent(name: str, arguments: dict[str, Any], place: int) -> Numbers | None:
    """What the member at this place of the group gives, if all of it is known; None also where it gives nothing."""
    operation = OPERATIONS[name]
    tensors = flat_tensors(arguments.get(operation.sends))
    if operation.name in ("broadcast", "scatter") and place != arguments["root_rank"]:
        return None
    constants = [getattr(tensor, "constant", None) for tensor in tensors]
    if not constants or any(constant is None or constant.dtype == torch.bfloat16 for constant in constants):
        return None
    if sizes := arguments.get("input_split_sizes"):
        constants = constants[0].split(list(sizes))
    return [constant.detach().numpy().copy() for constant in constants]


def put_numbers(name: str, arguments: dict[str, Any], received: Numbers | None, shapes: ShapesOnly) -> None:
    """Into the tensors that the call writes to; where they are not known, away. Call it where no mode is active."""
    tensors = flat_tensors(arguments.get(OPERATIONS[name].receives))
    numbers = np.concatenate([np.asarray(part).reshape(-1) for part in received]) if received else None
    if numbers is None or sum(tensor.numel() for tensor in tensors) != len(numbers):
        shapes.forget(tensors)
        return
    parts = np.split(numbers, np.cumsum([tensor.numel() for tensor in tensors])[:-1])
    for tensor, part in zip(tensors, parts, strict=True):
        known = shapes.known(torch.from_numpy(part.copy()).view(tensor.shape).to(tensor.dtype))
        with shapes:
            tensor.copy_(known)


def carries_numbers(name: str, arguments: dict[str, Any]) -> bool:
    """Whether what travels may be known: whole numbers, or a single one."""
    operation = OPERATIONS[name]
    tensors = flat_tensors([arguments.get(operation.receives), arguments.get(operation.sends)])
    return bool(tensors) and (not tensors[0].dtype.is_floating_point or all(tensor.numel() == 1 for tensor in tensors))
