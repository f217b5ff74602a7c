"""Inside a rank: number every call, and report calls, waits and completions as each happens.

Who sees them is in traced_group (groups and Works, whether Python or C++ uses them), futures and new_group.
"""

import _thread
import functools
import itertools
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.weak import TensorWeakRef

from utils.trace.calls import (
    OPERATIONS,
    POINT_TO_POINT,
    ROOTED,
    CallFacts,
    describe,
    flat_tensors,
    reduce_op_name,
    signature,
)
from utils.trace.user_code import is_blocking_message, is_called_directly, library_line, user_line

Report = Callable[..., None]  # report(kind, **fields)
PATIENCE_S = 30.0  # a pause that nobody ends
IN_VAIN = 20  # who asks a Work so often whether it has come waits for it
_LISTS_TO_FILL = {"allgather_": "output_tensors", "gather_": "output_tensors", "alltoall_": "output_tensors",
                  "allgather_coalesced_": "output_lists"}
_FILLED_BY_COPYING = frozenset({"all_gather", "gather", "all_to_all"})


@dataclass(slots=True, eq=False, weakref_slot=True)
class PendingCall:
    """A call from its beginning until somebody has waited for it."""

    number: int
    is_message: bool = False
    from_anybody: bool = False
    is_direct: bool = False  # user code began it, and no engine of torch's
    has_ended: bool = False
    changed: bool = False
    work: weakref.ref | None = None
    tensors: list[tuple[TensorWeakRef, int]] = field(default_factory=list)  # with how often each was changed, at the start
    asked_s: list[float] = field(default_factory=list)  # when it was asked in vain whether it has come


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
        """Forget what was: the next call is number 0. For another rank in the same process."""
        self._unfinished: dict[int, PendingCall] = {}  # those that have not come, so far as is known, by number
        self._not_waited_for: dict[int, PendingCall] = {}  # those that user code began and has not waited for, come or not
        self._send, self._clock = report, clock
        self._later: deque[tuple[str, dict]] = deque()
        self.told_to_wait: int | None = None
        self.futures: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # a future -> the call that it ends with
        self._told: dict[tuple, tuple[int, bool]] = {}  # what a call is -> the id under which that was reported; is direct
        self._ids, self._numbers = itertools.count(), itertools.count()
        self._order = threading.Lock()  # held from taking what was left for later until it is sent
        self.main_waits_for: int | None = None  # the call that the main thread is in a wait for
        self.threads_wait_for: dict[int, int] = {}  # another thread -> the same
        self._main_thread = threading.get_ident()
        self.note_threads()

    def note_threads(self) -> None:
        """Those that are there now are ours: they make no calls."""
        self._threads_at_start = _thread._count()  # besides the main one
        self.own_threads = frozenset(sys._current_frames())

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

    def oldest_unfinished(self) -> int | None:
        """The oldest call that has not come and that nobody has waited for in a way that is seen: in C++, for its future."""
        for number, call in sorted(self._unfinished.items()):
            work = call.work()
            if work is None or not work.has_come():
                return number
        return None

    def flush(self) -> None:
        """Send what was left for later; on return no other thread is still sending it."""
        self._report()

    def finish(self) -> None:
        """The rank's function has returned: tell what it never waited for."""
        if self._not_waited_for:
            self._later.append(("forgotten", {"numbers": [*self._not_waited_for]}))
        self.flush()

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

    def on_main_thread(self) -> bool:
        return threading.get_ident() == self._main_thread

    def is_alone(self) -> bool:
        """No thread but the main one can make this rank's calls."""
        return _thread._count() <= self._threads_at_start  # threading counts in Python, under a lock

    # ── calls ──

    def call(self, operator: str, group: dist.ProcessGroup, arguments: dict[str, Any]) -> PendingCall:
        """Report a call that is about to begin.  arguments: by the names that `operator`'s schema has for them.

        Raises: ValueError for a peer or root that is not there.
        """
        op = OPERATIONS[operator].name
        is_async, alone = arguments.get("async_op", op in POINT_TO_POINT), self.is_alone()
        source, waits, thread = user_line(sys._getframe(), self.machinery), not is_async, None  # the wait follows at once
        if not self.on_main_thread():
            source, waits, thread = source or library_line(sys._getframe()), False, threading.current_thread().name
        own_rank, size, group_name = identity = _identity_of(group)
        repeats = operator in _LISTS_TO_FILL and _fills_twice(operator, arguments)

        def facts() -> CallFacts:
            _check_ends(op, arguments, group)
            return describe(
                operator, arguments, own_rank, size, group=group_name, members=dist.get_process_group_ranks(group),
                is_async=is_async and not is_blocking_message(sys._getframe()), waits=waits, alone=alone, source=source,
                thread=thread, repeats=repeats,
                is_direct=is_called_directly(sys._getframe()))

        key = (signature(operator, arguments), identity, is_async, alone, waits, source, thread, repeats)
        number, is_direct = self.announce(key, facts)
        self.told_to_wait = number if waits else None
        return PendingCall(number, op in POINT_TO_POINT, operator == "recv_any_source_", is_direct and is_async)

    def announce(self, key: tuple, facts: Callable[[], CallFacts]) -> tuple[int, bool]:
        """Report a call. What it is goes before it, once: a loop makes the same one again and again."""
        if (known := self._told.get(key)) is None:
            told = facts()
            known = self._told[key] = next(self._ids), told.is_direct
            self._later.append(("facts", {"id": known[0], "facts": told}))
        number = next(self._numbers)
        self._report("call", number=number, time=self._clock(), facts=known[0])
        return number, known[1]

    def withdraw(self, call: PendingCall) -> None:
        """A call that raised an error has not begun."""
        self._report("withdrawn", number=call.number, time=self._clock())

    def follow(self, traced: dist.Work, work: dist.Work, operator: str, arguments: dict[str, Any]) -> None:
        """A call has begun.  traced: its Work as the program gets it; work: as torch made it."""
        call = traced.call
        if call.number == self.told_to_wait:  # its caller waits for it next, and keeps it no longer
            return
        call.work = weakref.ref(traced)
        self._unfinished[call.number] = call
        if call.is_direct:
            self._not_waited_for[call.number] = call
        if arguments.get("async_op", True):
            call.tensors = _versions(operator, arguments)
        if arguments.get("async_op", False):
            with suppress(RuntimeError):  # gloo's reduce-scatter has no future
                _add_done_callback(work.get_future(), functools.partial(self._on_done, call.number, self._unfinished))

    def _on_done(self, number: int, unfinished: dict, _: torch.futures.Future) -> None:
        unfinished.pop(number, None)
        if unfinished is self._unfinished:
            self._report("done", number=number, time=self._clock())

    def end_without_work(self, call: PendingCall) -> None:
        """NCCL gives no Work for a collective that is not async, and only queues it: wait here, so that the trace can tell.

        A message without a Work is one of several that begin together: it has no end of its own.
        """
        if call.is_message:
            self._later.append(("done", {"number": call.number, "time": self._clock()}))
        else:
            with self.waiting(call):
                torch.cuda.current_stream().synchronize()

    # ── waits ──

    @contextmanager
    def waiting(self, call: PendingCall | None):
        """Report that this thread waits for a call, and when it stopped waiting."""
        if call is None:
            yield
            return
        since = self.begin_waiting(call)
        try:
            yield
        finally:
            self.end_waiting(call, since)

    def begin_waiting(self, call: PendingCall) -> float | None:
        """When it began on another thread than the main one, of which a wait is told once it is over."""
        if len(call.asked_s) == IN_VAIN:
            since, until = call.asked_s[0], call.asked_s[-1]
            self._later.append(("waited", {"number": call.number, "start": since, "time": until}))
            call.asked_s.clear()
        if not self.on_main_thread():
            self.threads_wait_for[threading.get_ident()] = call.number
            return self._clock()
        self.main_waits_for = call.number
        if call.number != self.told_to_wait:
            self._report("wait", number=call.number, alone=self.is_alone(), time=self._clock(), changed=_is_changed(call),
                         source=user_line(sys._getframe(), self.machinery))
        return None

    def end_waiting(self, call: PendingCall, since: float | None, **about: Any) -> None:
        """about: of a receive from anybody "sender", as a rank of its group."""
        self._unfinished.pop(call.number, None)
        self._not_waited_for.pop(call.number, None)
        if since is None:
            self.main_waits_for = None
            self._later.append(("woke", {"number": call.number, "time": self._clock(), **about}))
        else:
            self.threads_wait_for.pop(threading.get_ident(), None)
            self._later.append(("waited", {"number": call.number, "start": since, "time": self._clock(), **about}))

    def note_asked(self, call: PendingCall, has_come: bool) -> None:
        """To ask is no wait by itself; who waits in the end has waited since he asked, if he asked so often."""
        if has_come:
            _is_changed(call)  # from now on the program may
            self._not_waited_for.pop(call.number, None)
        else:
            call.asked_s[IN_VAIN - 1:] = [self._clock()]  # the first ones and the last

    def note_dropped(self, call: PendingCall) -> None:
        """Runs wherever a message's Work is collected, perhaps within a report, so it takes no lock."""
        if self._unfinished.get(call.number) is call:  # and not one of another rank's, after `begin`
            self._later.append(("dropped", {"number": call.number, "time": self._clock()}))

    def note_future(self, future: torch.futures.Future, call: PendingCall) -> None:
        """Who takes a call's future waits for that, perhaps in C++."""
        self.futures[future] = call
        self._not_waited_for.pop(call.number, None)


_add_done_callback = torch._C.Future.add_done_callback


def _identity_of(group: dist.ProcessGroup) -> tuple[int, int, str]:
    """(this rank's number in it, its size, its name), asked of torch once: that takes a third of a call's recording."""
    identity = getattr(group, "_identity", None)
    if identity is None:
        identity = group._identity = group.rank(), group.size(), group.group_name
    return identity


def _versions(operator: str, arguments: dict[str, Any]) -> list[tuple[TensorWeakRef, int]]:
    """The tensors of a call, which stay free to go, and how often each has been changed.

    Not of views, whose number counts every change of what they are a part of; and not of the outputs of a gather, an
    all-to-all or an average: gloo's own thread counts as a change what it copies or divides there.
    """
    operation, reduce_op = OPERATIONS[operator], arguments.get("reduce_op")
    averages = reduce_op is not None and reduce_op_name(reduce_op) == "AVG"
    told = {operation.sends, operation.receives}
    if averages or operation.name in _FILLED_BY_COPYING:
        told.remove(operation.receives)
    tensors = flat_tensors([arguments.get(name) for name in told])
    return [(TensorWeakRef(x), x._version) for x in tensors if x._base is None and not x.is_inference()]


def _is_changed(call: PendingCall) -> bool:
    """Whether the program has changed a tensor of the call between its start and when this was first asked."""
    tensors = [(reference(), version) for reference, version in call.tensors]
    call.tensors = []
    call.changed |= any(tensor is not None and tensor._version != version for tensor, version in tensors)
    return call.changed


def _fills_twice(operator: str, arguments: dict[str, Any]) -> bool:
    """Whether one tensor stands more than once in the list that the call fills, as in [t] * n."""
    tensors = flat_tensors(arguments[_LISTS_TO_FILL[operator]])
    return len({id(tensor) for tensor in tensors}) < len(tensors)


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
