"""The process group and the Work that a rank gets in the place of torch's own: they do the same, and tell the recorder.

torch makes its groups by the name distributed_c10d.ProcessGroup, so a subclass put there is what init_process_group,
new_group and meshes make, over the same gloo or NCCL backends. Its methods are met by functions of dist and, as they are
virtual, by C++ too: DDP, and functional collectives, whose waits are seen in the same way.
"""

from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from utils.trace.backends import pass_on_to_groups
from utils.trace.futures import watch_futures
from utils.trace.new_group import watch_new_group
from utils.trace.recorder import PendingCall, Recorder

torch_group = c10d.ProcessGroup


class TracedWork(dist.Work):
    """A Work of torch's with the call that it belongs to."""

    def __init__(self, work: dist.Work, call: PendingCall, recorder: Recorder):
        super().__init__()
        self._work, self._recorder, self.call = work, recorder, call

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Raises: RuntimeError for a message that has been waited for, which gloo would wait for without end."""
        if self.call.is_message and self.call.has_ended:
            raise RuntimeError("a send or receive can be waited for once, and this one has been: with gloo a second "
                               "wait() would never end. Remove it.")
        since, sender = self._recorder.begin_waiting(self.call), {}
        try:
            result = self._work.wait(timeout) if timeout else self._work.wait()
            if self.call.from_anybody:
                sender = {"sender": self._work._source_rank()}
        finally:
            self._recorder.end_waiting(self.call, since, **sender)
        self.call.has_ended = True
        return result

    def synchronize(self) -> None:
        with self._recorder.waiting(self.call):
            self._work.synchronize()

    def is_completed(self) -> bool:
        has_come = self.has_come()
        self._recorder.note_asked(self.call, has_come)
        return has_come

    def has_come(self) -> bool:
        """The same, asked by nobody."""
        return self._work.is_completed()

    def get_future(self) -> torch.futures.Future:
        future = self._work.get_future()
        self._recorder.note_future(future, self.call)
        return future

    def __del__(self):
        if self.call.is_message:  # gloo gives up a send or receive whose Work is thrown away
            self._recorder.note_dropped(self.call)


class TracedGroup(torch_group):
    """A group whose calls are recorded. What does the work is a plain group, over the same backends."""

    recorder: Recorder

    def __init__(self, store: dist.Store, rank: int, size: int):
        # With a store, torch 2.13 makes no group that Python's methods override.
        super().__init__(rank, size)  # ty: ignore[missing-argument] which torch's types don't know
        self._untraced = torch_group(store, rank, size)

    def _check(self, method: str, args: tuple) -> None:
        """Raises: an error for a call that cannot be made; it is not reported."""

    def _begin(self, method: str, args: tuple) -> dist.Work | None:
        return getattr(self._untraced, _NAMED_HERE.get(method, method))(*args)

    def monitored_barrier(self, *args: Any, **kwargs: Any) -> None:
        """Blocks inside, and returns no Work."""
        with self.recorder.waiting(self.recorder.call("monitored_barrier_", self, {"async_op": False})):
            self._untraced.monitored_barrier(*args, **kwargs)

    def split_group(self, *args: Any, **kwargs: Any) -> "TracedGroup | None":
        part = self._untraced.split_group(*args, **kwargs)
        if part is None:
            return None
        group = type(self)(part.get_group_store(), part.rank(), part.size())
        for kind in part._device_types:
            backend = part._get_backend(kind)
            known_as = torch_group.BackendType.__members__.get(backend.name().upper(), torch_group.CUSTOM)
            group._register_backend(kind, known_as, backend)
        group._set_group_name(part.group_name)
        return group

    def _register_backend(self, *args: Any) -> None:
        super()._register_backend(*args)
        self._untraced._register_backend(*args)

    def _set_default_backend(self, kind: torch_group.BackendType) -> None:
        super()._set_default_backend(kind)
        self._untraced._set_default_backend(kind)

    def get_group_store(self) -> dist.Store:
        return self._untraced.get_group_store()

    def boxed(self) -> NoReturn:
        raise RuntimeError("operators of torch.ops.c10d would go past the trace: call the functions of torch.distributed")


def start_recording(recorder: Recorder, kind: type[TracedGroup] = TracedGroup) -> None:
    """For the rest of this process's life torch makes groups of this kind. Compilers know groups by their class's name."""
    if dist.distributed_c10d.ProcessGroup is kind:
        return
    kind.recorder = recorder
    kind.__module__, kind.__name__, kind.__qualname__ = "torch.distributed.distributed_c10d", "ProcessGroup", "ProcessGroup"
    dist.distributed_c10d.ProcessGroup = kind
    pass_on_to_groups([*METHODS, *_OTHER_NAMES])
    watch_futures(recorder)
    watch_new_group(recorder)


# ── the methods of a group that begin calls ──


class _Method:
    """How a method of a group is called, and what the operator's schema calls its arguments.

    arguments: names, each with how deep its lists of tensors are nested. options: the class of the last one; None for
    messages, whose last ones are numbers.
    """

    def __init__(self, operator: str, arguments: dict[str, int], options: type | None):
        self.operator, self._depths, self._options = operator, arguments, options
        self._names, self._length = [*arguments], len(arguments) + (options is not None)
        told = {"async_op": "asyncOp", "reduce_op": "reduceOp", "root_rank": "rootRank"}
        self._told = {ours: theirs for ours, theirs in told.items() if options and hasattr(options(), theirs)}

    def is_spelled_out(self, args: tuple, kwargs: dict) -> bool:
        """Whether it is called as functions of dist call it, with every argument in its place."""
        if kwargs or len(args) != self._length:
            return False
        if self._options is None:
            return all(type(number) is int for number in args[1:])
        return type(args[-1]) is self._options

    def spelled_out(self, args: tuple, kwargs: dict) -> tuple:
        """The same arguments as that: a group's methods also take a tensor for a list of one, or options one by one."""
        named = {name: kwargs[name] for name in ("op", "root", "timeout", "opts") if name in kwargs}
        given = [*args, *(value for name, value in kwargs.items() if name not in named)]
        values = [_nested(value, depth) for value, depth in zip(given, self._depths.values(), strict=False)]
        if self._options is None:
            return values[0], *map(int, values[1:])
        options = self._options()
        for value in (*given[len(self._names):], *named.values()):
            if isinstance(value, self._options):
                options = value
            elif isinstance(value, timedelta):
                options.timeout = value
            elif isinstance(value, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
                options.reduceOp = value
            elif value is not None:
                options.rootRank = int(value)
        return *values, options

    def named(self, args: tuple) -> dict[str, Any]:
        """Name → value, of arguments that are spelled out."""
        arguments = dict(zip(self._names, args, strict=False))
        for ours, theirs in self._told.items():
            arguments[ours] = getattr(args[-1], theirs)
        return arguments


def _nested(value: Any, depth: int) -> Any:
    inner, found = value, 0
    while isinstance(inner, (list, tuple)) and inner:
        inner, found = inner[0], found + 1
    for _ in range(depth - found if isinstance(inner, torch.Tensor) else 0):
        value = [value]
    return value


_SPLIT = {"output": 0, "input": 0, "output_split_sizes": 0, "input_split_sizes": 0}
_SINGLE = {"output_tensor": 0, "input_tensor": 0}
_COALESCED = {"outputs": 1, "inputs": 1}
METHODS = {
    "allreduce": _Method("allreduce_", {"tensors": 1}, c10d.AllreduceOptions),
    "allreduce_coalesced": _Method("allreduce_coalesced_", {"tensors": 1}, c10d.AllreduceCoalescedOptions),
    "broadcast": _Method("broadcast_", {"tensors": 1}, c10d.BroadcastOptions),
    "reduce": _Method("reduce_", {"tensors": 1}, c10d.ReduceOptions),
    "allgather": _Method("allgather_", {"output_tensors": 2, "input_tensors": 1}, c10d.AllgatherOptions),
    "all_gather_single": _Method("_allgather_base_", _SINGLE, c10d.AllgatherOptions),
    "allgather_coalesced": _Method("allgather_coalesced_", {"output_lists": 2, "input_list": 1}, c10d.AllgatherOptions),
    "all_gather_single_coalesced": _Method("allgather_into_tensor_coalesced_", _COALESCED, c10d.AllgatherOptions),
    "reduce_scatter": _Method("reduce_scatter_", {"output_tensors": 1, "input_tensors": 2}, c10d.ReduceScatterOptions),
    "reduce_scatter_single": _Method("_reduce_scatter_base_", _SINGLE, c10d.ReduceScatterOptions),
    "reduce_scatter_single_coalesced": _Method("reduce_scatter_tensor_coalesced_", _COALESCED, c10d.ReduceScatterOptions),
    "gather": _Method("gather_", {"output_tensors": 2, "input_tensors": 1}, c10d.GatherOptions),
    "gather_single": _Method("gather_into_tensor_", _SINGLE, c10d.GatherOptions),
    "scatter": _Method("scatter_", {"output_tensors": 1, "input_tensors": 2}, c10d.ScatterOptions),
    "alltoall": _Method("alltoall_", {"output_tensors": 1, "input_tensors": 1}, c10d.AllToAllOptions),
    "all_to_all_single": _Method("alltoall_base_", _SPLIT, c10d.AllToAllOptions),
    "barrier": _Method("barrier", {}, c10d.BarrierOptions),
    "send": _Method("send", {"tensors": 1, "dst": 0, "tag": 0}, None),
    "recv": _Method("recv_", {"tensors": 1, "src": 0, "tag": 0}, None),
    "recv_anysource": _Method("recv_any_source_", {"tensors": 1, "tag": 0}, None),
}
_OTHER_NAMES = {  # until torch 2.12 the only ones; 2.13 calls them so, too
    "_allgather_base": "all_gather_single", "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "_reduce_scatter_base": "reduce_scatter_single", "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
    "alltoall_base": "all_to_all_single", "gather_into_tensor": "gather_single"}
_NEW_IN_2_13 = {"all_gather_single": "all_gather_into_tensor", "reduce_scatter_single": "reduce_scatter_tensor"}
_NAMED_HERE = {name: other for other, name in _OTHER_NAMES.items() if not hasattr(torch_group, name)}


def _recorded(name: str, method: _Method):
    def begin(group: TracedGroup, *args: Any, **kwargs: Any) -> TracedWork | None:
        if not method.is_spelled_out(args, kwargs):
            args = method.spelled_out(args, kwargs)
        group._check(name, args)
        recorder, arguments = group.recorder, method.named(args)
        call = recorder.call(method.operator, group, arguments)
        try:
            work = group._begin(name, args)
        except BaseException:
            recorder.withdraw(call)
            raise
        if work is None:
            recorder.end_without_work(call)
            return None
        traced = TracedWork(work, call, recorder)
        recorder.follow(traced, work, method.operator, arguments)
        return traced

    return begin


def _asked_of_torch(name: str):
    return lambda work, *args, **kwargs: getattr(work._work, name)(*args, **kwargs)


for _name, _method in METHODS.items():
    setattr(TracedGroup, _name, _recorded(_name, _method))
for _other, _name in _OTHER_NAMES.items():
    setattr(TracedGroup, _other, getattr(TracedGroup, _name))
for _name, _other in _NEW_IN_2_13.items():
    if not hasattr(dist, _name):  # the course calls the new names
        setattr(dist, _name, getattr(dist, _other))
for _name in ("_get_duration", "_get_op_type", "_source_rank", "block_current_stream", "exception", "get_future_result",
              "is_success", "result", "source_rank"):
    setattr(TracedWork, _name, _asked_of_torch(_name))
