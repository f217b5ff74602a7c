"""Inside a rank: see every c10d call and wait, and report each as it happens.

The kernels are registered at the dispatcher's BackendSelect key, above every backend: calls by student code, DDP, FSDP2,
DTensor and pipelining all pass through, on any thread, at no cost to other torch operations. The way into a Python kernel
and back is long, though, so the commonest calls from Python are met before it, and go straight on to the backend, where no
mode (the memory meter, say) looks on at operations.
"""

import _thread
import functools
import itertools
import sys
import sysconfig
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.device_mesh
from torch._C import _distributed_c10d as c10d
from torch.utils.weak import TensorWeakRef

from utils.trace.backends import pass_on_to_groups
from utils.trace.calls import OPERATIONS, POINT_TO_POINT, ROOTED, describe, flat_tensors, signature

Report = Callable[..., None]  # report(kind, **fields)
PATIENCE_S = 30.0  # a pause that nobody ends
IN_VAIN = 20  # who asks a Work so often whether it has come waits for it

_BELOW = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_CPU = torch.device("cpu")
_SUM, _ROOT = {"reduce_op": "reduceOp"}, {"root_rank": "rootRank"}
_SHORT_CUTS = {  # method of a process group -> operator, what the backend calls it, last argument, what that tells
    "barrier": ("barrier", c10d.Backend.barrier, c10d.BarrierOptions, {}),
    "send": ("send", c10d.Backend.send, int, {}),
    "recv": ("recv_", c10d.Backend.recv, int, {}),
    "allreduce": ("allreduce_", c10d.Backend.allreduce, c10d.AllreduceOptions, _SUM),
    "broadcast": ("broadcast_", c10d.Backend.broadcast, c10d.BroadcastOptions, _ROOT),
    "reduce": ("reduce_", c10d.Backend.reduce, c10d.ReduceOptions, _SUM | _ROOT),
    "allgather": ("allgather_", c10d.Backend.allgather, c10d.AllgatherOptions, {}),
    "all_gather_single": ("_allgather_base_", c10d.Backend._allgather_base, c10d.AllgatherOptions, {}),
    "reduce_scatter": ("reduce_scatter_", c10d.Backend.reduce_scatter, c10d.ReduceScatterOptions, _SUM),
    "reduce_scatter_single": ("_reduce_scatter_base_", c10d.Backend._reduce_scatter_base, c10d.ReduceScatterOptions, _SUM),
}
_OPERATORS = {name: getattr(torch.ops.c10d, name).default for name in OPERATIONS}  # found once, before ranks are forked
_OURS = Path(__file__).resolve().parents[1]
_LIBRARY_FOLDERS = tuple({
    str(Path(torch.__file__).parent), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"), str(_OURS), "<frozen", "<string>",
})


@functools.cache
def is_user_file(filename: str, machinery: tuple[str, ...] = ()) -> bool:
    """True for code that the caller wrote: not torch, not the standard library, not utils, not in folders of `machinery`."""
    return not filename.startswith(_LIBRARY_FOLDERS + machinery)


def user_line(frame, machinery: tuple[str, ...] = ()) -> tuple[str, int, str] | None:
    """(file, line, function) of the innermost frame of user code, or None."""
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename, machinery):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return None


@dataclass(slots=True)
class _Begun:
    """A call that has a Work. Gloo can wait for a message once."""

    number: int
    is_message: bool
    from_anybody: bool = False
    waited: bool = False
    asked_s: list[float] = field(default_factory=list)  # when it was asked in vain whether it has come

    def sender_of(self, work: dist.Work) -> dict[str, int]:
        """Of a receive from anybody that has come: {"sender": a rank of its group}."""
        return {"sender": work._source_rank()} if self.from_anybody else {}


class Recorder:
    """Reports calls, waits and completions of one rank.

    Every report is sent before the call it speaks of is handed on, so whoever reads the reports of all ranks knows of a
    call before any rank can see its effect. Only the end of a wait may travel later, with the next report: a rank is
    never thought stuck in a call that all its partners have made.
    """

    def __init__(self, report: Report, machinery: tuple[str, ...] = (), clock: Callable[[], float] = time.monotonic):
        self.machinery = machinery
        self.looked_at: threading.Event | None = None  # set when a pause is over; None where nobody would look
        self.begin(report, clock)

    def begin(self, report: Report, clock: Callable[[], float] = time.monotonic) -> None:
        """Forget what was: the next call is number 0. For another rank in the same process, after `install`."""
        self._outstanding: set[int] = set()  # first: the newest Work may go with what follows
        self._send, self._clock = report, clock
        self._later: deque[tuple[str, dict]] = deque()
        self._waits_announced: int | None = None
        self._begun: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Work, or a future of it -> _Begun
        self._under_way: dict[int, list[tuple[TensorWeakRef, int]]] = {}  # call -> its tensors as they were at its start
        self._latest = threading.local()  # its .work keeps a thread's newest Work alive until its caller holds it
        self._told: dict[tuple, int] = {}  # what a call is -> the id under which that was reported
        self._ids, self._numbers = itertools.count(), itertools.count()
        self._lock = threading.Lock()
        self._order = threading.Lock()  # held from taking what was left for later until it is sent
        self._waiting_depth = 0
        self._main_thread = threading.get_ident()
        self._threads_at_start = 0  # besides the main one

    def install(self) -> None:
        """Start recording, for the rest of this process's life."""
        self._threads_at_start = _thread._count()
        self._library = torch.library.Library("c10d", "IMPL")
        for name, operator in _OPERATORS.items():
            self._library.impl(name, self._kernel(name, operator), "BackendSelect", with_keyset=True)
        for method, short_cut in _SHORT_CUTS.items():
            setattr(c10d.ProcessGroup, method, self._met_before(getattr(c10d.ProcessGroup, method), *short_cut))
        pass_on_to_groups()
        self._watch_waits()
        self._watch_new_group()

    @contextmanager
    def span(self, name: str):
        """Put a named stretch of this rank's own work into the trace."""
        start = self._clock()
        try:
            yield
        finally:
            self._report("span", name=name, start=start, end=self._clock())

    def mark(self, name: str, **facts: Any) -> None:
        """Put a named instant into the trace."""
        self._report("mark", name=name, time=self._clock(), facts=facts)

    def pause(self, name: str, **facts: Any) -> None:
        """Stand still at a named instant until whoever started the ranks has looked at this one, if anybody looks."""
        if self.looked_at is not None:
            self.looked_at.clear()
            self._report("pause", name=name, facts=facts)
            self.looked_at.wait(PATIENCE_S)

    def oldest_outstanding(self) -> int | None:
        """The oldest asynchronous call that nobody has waited for, while the main thread is in no recorded wait."""
        with self._lock:
            return min(self._outstanding) if self._outstanding and not self._waiting_depth else None

    def flush(self) -> None:
        """Send what was left for later; on return no other thread is still sending it."""
        self._report()

    def _report(self, kind: str | None = None, **fields: Any) -> None:
        with self._order:
            if not self._later:
                if kind is not None:
                    self._send(kind, **fields)
                return
            items = [self._later.popleft() for _ in range(len(self._later))]
            if kind is not None:
                items.append((kind, fields))
            self._send("batch", items=items)

    def _on_main_thread(self) -> bool:
        return threading.get_ident() == self._main_thread

    def _is_alone(self) -> bool:
        """No thread but the main one can make this rank's calls."""
        return _thread._count() <= self._threads_at_start  # threading counts in Python, under a lock

    # ── calls ──

    def _met_before(self, original: Callable, name: str, handed_on: Callable, last: type, told: dict[str, str]) -> Callable:
        names = [argument.name for argument in _OPERATORS[name]._schema.arguments if argument.name != "process_group"]

        def call(group, *args, **kwargs):
            if len(kwargs) == 1 and "opts" in kwargs:
                args, kwargs = (*args, kwargs["opts"]), {}
            options = args[-1] if args else None
            if (kwargs or type(options) is not last
                    or (last is int and [*map(type, args[1:])] != [int, int])  # a message's rank and tag
                    or (last is c10d.BarrierOptions and options.device != _CPU)  # has no tensors that would tell it
                    or not self._goes_straight_on(name, group, args[:-1])):
                return original(group, *args, **kwargs)
            if last is int:
                arguments = dict(zip(names, args, strict=False))
            else:
                arguments = dict(zip(names, args[:-1], strict=False))
                arguments["async_op"] = options.asyncOp
                for ours, theirs in told.items():
                    arguments[ours] = getattr(options, theirs)
            number = self._report_call(name, group, arguments)
            work = self._begun_by(handed_on, group, args)
            self._remember(number, work, arguments)
            return work

        return call

    def _goes_straight_on(self, name: str, group: dist.ProcessGroup, args: tuple) -> bool:
        """Whether there is no more to the call than numbers in memory.

        False for tensors of other devices, sparse ones, views that are not what they store, a gradient that torch would
        warn of, and where a mode looks on at operations.
        """
        if torch._C._len_torch_dispatch_stack():
            return False
        for arg in args:
            for x in flat_tensors(arg):
                if (type(x) not in _PLAIN or not x.is_cpu or x.layout is not torch.strided or x.requires_grad
                        or x.is_neg() or x.is_conj() or x._is_zerotensor()):
                    return False
        return True

    def _begun_by(self, handed_on: Callable, group: dist.ProcessGroup, args: tuple) -> dist.Work:
        return handed_on(c10d.ProcessGroup._get_backend(group, _CPU), *args)

    def _kernel(self, name: str, operator):
        argument_names = [argument.name for argument in operator._schema.arguments]
        defaults = {a.name: a.default_value for a in operator._schema.arguments if a.has_default_value()}

        def call(keyset, *args, **kwargs):
            arguments = dict(zip(argument_names, args, strict=False))
            if len(args) < len(argument_names):
                arguments = defaults | arguments | kwargs
            number = self._report_call(name, c10d.ProcessGroup.unbox(arguments["process_group"]), arguments)
            if name == "monitored_barrier_":  # blocks inside, returns no Work
                with self._blocked(number):
                    return operator.redispatch(keyset & _BELOW, *args, **kwargs)
            result = operator.redispatch(keyset & _BELOW, *args, **kwargs)
            work = c10d.Work.unbox(result[1] if isinstance(result, tuple) else result)
            if work is None:
                self._end_without_work(number, arguments)
            else:
                self._remember(number, work, arguments)
            return result

        return call

    def _report_call(self, name: str, group: dist.ProcessGroup, arguments: dict[str, Any]) -> int:
        is_async = arguments.get("async_op", OPERATIONS[name].name in POINT_TO_POINT)
        waits = not is_async and self._on_main_thread()  # the wait follows at once: say so now
        source = user_line(sys._getframe(), self.machinery)
        own_rank, size, group_name, alone = group.rank(), group.size(), group.group_name, self._is_alone()

        def facts() -> dict[str, Any]:
            _check_ends(OPERATIONS[name].name, arguments, group)
            return describe(name, arguments, own_rank, size) | {
                "group": group_name, "members": dist.get_process_group_ranks(group), "is_async": is_async,
                "waits": waits, "alone": alone, "source": source}

        key = (signature(name, arguments), own_rank, size, group_name, is_async, alone, waits, source)
        number = self._announce(key, facts)
        self._waits_announced = number if waits else None
        return number

    def _announce(self, key: tuple, facts: Callable[[], dict[str, Any]]) -> int:
        """Report a call. What it is goes before it, once: a loop makes the same one again and again."""
        if (known_as := self._told.get(key)) is None:
            known_as = next(self._ids)
            self._later.append(("facts", {"id": known_as, "facts": facts()}))
            self._told[key] = known_as
        number = next(self._numbers)
        self._report("call", number=number, time=self._clock(), facts=known_as)
        return number

    def _remember(self, number: int, work: dist.Work, arguments: dict) -> None:
        is_message = "async_op" not in arguments
        begun = _Begun(number, is_message, from_anybody=is_message and not {"dst", "src"} & arguments.keys())
        self._latest.work, self._latest.begun = work, begun
        if number == self._waits_announced:  # its caller waits for it next, and keeps it no longer
            return
        self._begun[work] = begun
        with self._lock:
            self._outstanding.add(number)
        if arguments.get("async_op", True):
            self._under_way[number] = _versions(arguments)
        if begun.is_message:  # gloo gives up a send or receive whose Work is thrown away
            weakref.finalize(work, self._on_dropped, number, self._outstanding)
        if arguments.get("async_op", False):
            with suppress(RuntimeError):  # gloo's reduce-scatter has no future
                work.get_future().add_done_callback(lambda _: self._report("done", number=number, time=self._clock()))

    def _end_without_work(self, number: int, arguments: dict) -> None:
        """NCCL gives no Work for a collective that is not async, and only queues it: wait here, so that the trace can tell.

        A message without a Work is one of several that begin together: it has no end of its own.
        """
        if "async_op" in arguments:
            with self._blocked(number):
                torch.cuda.current_stream().synchronize()
        else:
            self._later.append(("done", {"number": number, "time": self._clock()}))

    # ── waits ──

    @contextmanager
    def _blocked(self, number: int | None):
        """Report that this thread waits for call `number`, and when it stopped waiting."""
        if number is None:
            yield
            return
        since = self._begin_waiting(number)
        try:
            yield
        finally:
            self._end_waiting(number, since)

    def _begin_waiting(self, number: int) -> float | None:
        """When it began on another thread than the main one, of which a wait is told once it is over."""
        if not self._on_main_thread():
            return self._clock()
        self._waiting_depth += 1
        if number != self._waits_announced:
            self._report("wait", number=number, alone=self._is_alone(), time=self._clock(), changed=self._changed(number),
                         source=user_line(sys._getframe(), self.machinery))
        return None

    def _end_waiting(self, number: int, since: float | None, **about: Any) -> None:
        if number in self._outstanding:
            with self._lock:
                self._outstanding.discard(number)
        if since is None:
            self._waiting_depth -= 1
            self._later.append(("woke", {"number": number, "time": self._clock(), **about}))
        else:
            self._later.append(("waited", {"number": number, "start": since, "time": self._clock(), **about}))

    def _changed(self, number: int) -> bool:
        """Whether the program has changed a tensor of the call since its start."""
        tensors = ((reference(), version) for reference, version in self._under_way.pop(number, ()))
        return any(tensor is not None and tensor._version != version for tensor, version in tensors)

    def _on_dropped(self, number: int, outstanding: set[int]) -> None:
        """Runs wherever the Work is collected, perhaps within a report (so it takes no lock), or after another `begin`."""
        if number in outstanding and outstanding is self._outstanding:
            self._later.append(("dropped", {"number": number, "time": self._clock()}))

    def _watch_waits(self) -> None:
        def watched(original: Callable, *, once: bool) -> Callable:
            def wait(work, *args, **kwargs):
                begun = self._of(work)
                if begun is None:
                    return original(work, *args, **kwargs)
                if once and begun.waited:
                    raise RuntimeError("a send or receive can be waited for once, and this one has been: with gloo a second "
                                       "wait() would never end. Remove it.")
                number = begun.number
                if len(begun.asked_s) == IN_VAIN:
                    self._later.append(("waited", {"number": number, "start": begun.asked_s[0], "time": begun.asked_s[-1]}))
                    begun.asked_s.clear()
                since, sender = self._begin_waiting(number), {}
                try:
                    result = original(work, *args, **kwargs)
                    sender = begun.sender_of(work)
                finally:
                    self._end_waiting(number, since, **sender)
                begun.waited = begun.waited or (once and begun.is_message)
                return result

            return wait

        c10d.Work.wait = watched(c10d.Work.wait, once=True)
        c10d.Work.synchronize = watched(c10d.Work.synchronize, once=False)
        c10d.Work.is_completed = self._asked(c10d.Work.is_completed)
        self._watch_futures()
        self._watch_wait_tensor()

    def _asked(self, original: Callable) -> Callable:
        """To ask is no wait by itself; who waits in the end has waited since he asked, if he asked so often."""
        def is_completed(work) -> bool:
            has_come, begun = original(work), self._known(work)
            if begun is not None and not has_come:
                begun.asked_s[IN_VAIN - 1:] = [self._clock()]  # the first ones and the last
            return has_come

        return is_completed

    def _watch_futures(self) -> None:
        """To wait for the future of a Work, or for one that begins where it ends, is to wait for its call."""
        future = torch._C.Future
        get_future, then, wait, collect = c10d.Work.get_future, future.then, future.wait, torch.futures.collect_all
        parts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # a future of many -> these

        def together(futures):
            made = collect(futures)
            parts[made] = list(futures)
            return made

        def remembered(made, of):
            if (begun := self._known(of)) is not None:
                self._begun[made] = begun
            return made

        def watched(awaited):
            for part in parts.get(awaited, ()):
                watched(part)
            begun = self._begun.get(awaited)
            with self._blocked(begun and begun.number):
                return wait(awaited)

        c10d.Work.get_future = lambda work: remembered(get_future(work), work)
        future.then = lambda first, callback: remembered(then(first, callback), first)
        future.wait = watched
        torch.futures.collect_all = together
        torch.futures.wait_all = lambda futures: [one.wait() for one in futures]  # torch's own waits where nobody sees it

    def _known(self, work) -> _Begun | None:
        return self._latest.begun if getattr(self._latest, "work", None) is work else self._begun.get(work)

    def _of(self, work) -> _Begun | None:
        """The same, and its caller holds it now."""
        if getattr(self._latest, "work", None) is not work:
            return self._begun.get(work)
        self._latest.work = None
        return self._latest.begun

    def _watch_wait_tensor(self) -> None:
        """Functional collectives wait inside one operator, without a Work that Python sees."""
        operator = torch.ops._c10d_functional.wait_tensor.default
        self._functional = torch.library.Library("_c10d_functional", "IMPL")

        def wait_tensor(keyset, tensor):
            with self._blocked(self.oldest_outstanding()):
                return operator.redispatch(keyset & _BELOW, tensor)

        self._functional.impl("wait_tensor", wait_tensor, "BackendSelect", with_keyset=True)

    def _watch_new_group(self) -> None:
        """dist.new_group meets through the store; record it as one collective of the whole world.

        A group that init_device_mesh makes is recorded without a line: nobody's line asked for it.
        """
        original = dist.new_group

        def watched(has_line: bool):
            def new_group(ranks=None, *args, **kwargs):
                world = _all_ranks(dist.get_world_size())
                wanted = world if ranks is None else sorted(map(int, ranks))  # NumPy numbers are no JSON
                local = kwargs.get("use_local_synchronization", False)
                source = user_line(sys._getframe(), self.machinery) if has_line else None
                waits = self._on_main_thread()
                made = len(dist.distributed_c10d._world.pg_names) if local else 0  # what torch names a local group by
                about = (tuple(wanted), None if local else len(world), made, source, waits, self._is_alone())
                number = self._announce(("new_group", *about), functools.partial(_facts_of_new_group, *about))
                self._waits_announced = number if waits else None
                with self._blocked(number):
                    return original(ranks, *args, **kwargs)

            return new_group

        dist.new_group = torch.distributed.distributed_c10d.new_group = watched(has_line=True)
        torch.distributed.device_mesh.new_group = watched(has_line=False)


def _versions(arguments: dict[str, Any]) -> list[tuple[TensorWeakRef, int]]:
    """The tensors of a call, which stay free to go, and how often each has been changed.

    Not of views, whose number counts every change of what they are a part of.
    """
    return [(TensorWeakRef(x), x._version) for x in flat_tensors(list(arguments.values()))
            if x._base is None and not x.is_inference()]


@functools.cache
def _all_ranks(world_size: int) -> list[int]:
    """One list for all calls: a mesh of a thousand ranks makes hundreds of groups on each of them."""
    return list(range(world_size))


@functools.cache
def _facts_of_new_group(wanted: tuple[int, ...], world_size: int | None, made: int, source: tuple | None, waits: bool,
                        alone: bool) -> dict[str, Any]:
    """world_size: None where the members alone meet; made: how many groups the rank is in already. One dictionary for all
    calls, as above."""
    members = list(wanted)
    return {"group": "new_group" if world_size else f"new_group {members}",
            "members": _all_ranks(world_size) if world_size else members, "is_async": False, "op": "new_group", "dtype": "",
            "shape": members, "bytes": 0, "bytes_given": 0, "bytes_formula": 0, "root": None, "peer": None, "tag": 0,
            "reduce_op": None, "splits": None, "element_count": 0, "made": made, "waits": waits, "alone": alone,
            "source": source}


def _check_ends(op: str, arguments: dict[str, Any], group: dist.ProcessGroup) -> None:
    """Raises: ValueError for a peer or root that is not there, or a peer that is this rank; gloo says it less plainly."""
    peer = arguments.get("dst", arguments.get("src"))
    root = arguments.get("root_rank") if op in ROOTED else None
    for rank, advice in ((peer, "did you forget the modulo?"), (root, "the root must be one of them.")):
        if rank is not None and not 0 <= rank < group.size():
            raise ValueError(f"there is no rank {rank} in a group of {group.size()} (0 to {group.size() - 1}): {advice}")
    if peer == group.rank():
        raise ValueError(f"rank {peer} of the group would {op} {'to' if op == 'send' else 'from'} itself: skip the "
                         "exchange where the peer is the rank itself (as in a group of one)")
