"""Which tensors a rank held: bytes by category, now and at the peak."""

import functools
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from utils.trace.of_rank import OfRank

PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
WITHOUT_TENSORS = frozenset({int, float, bool, str, type(None), torch.Size, torch.dtype, torch.device, torch.layout})
LIFT = torch.ops.aten.lift_fresh.default  # says that it returns a view; of a tensor without numbers it makes a new one
CATEGORIES = ("parameters", "gradients", "optimizer state", "activations")


@dataclass(frozen=True)
class RankMemory:
    """Bytes that one rank held in tensors: by category when the function returned, and at the moment of the peak.

    "activations" is everything that is neither a parameter of a module, its gradient, nor state of an optimizer.
    """

    now: dict[str, int]
    peak: dict[str, int]

    @property
    def peak_bytes(self) -> int:
        return sum(self.peak.values())

    @property
    def now_bytes(self) -> int:
        return sum(self.now.values())


@dataclass(eq=False)
class _Held:
    """One storage that is alive."""

    storage: weakref.ref
    nbytes: int
    category: str = "activations"


class MemoryMeter(TorchDispatchMode):
    """Counts every storage that torch operations make or touch, while entered.

    A peak is photographed when memory first falls after a new maximum, and its categories are settled at the end, when
    it is known which tensors became gradients or optimizer state.
    """

    IGNORED_DEVICES = frozenset({"meta"})  # tensors without numbers

    def __init__(self):
        super().__init__()
        self._held: dict[int, _Held] = {}
        self._total = self._peak_total = self._most_total = 0
        self._peak: list[tuple[_Held, int]] = []
        self._peak_taken = True
        self._end: list[tuple[_Held, int]] | None = None
        self._lock = threading.RLock()
        self._handles: list = []
        self._enclosing: MemoryMeter | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and torch need not import its compiler in order to leave this mode alone."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """torch.compile traces what is below this mode, and not the mode itself."""
        return True

    def __enter__(self):
        self._handles = [
            torch.nn.modules.module.register_module_parameter_registration_hook(self._on_parameter),
            torch.nn.modules.module.register_module_forward_hook(self._on_forward),
            register_optimizer_step_post_hook(self._on_step),
        ]
        self._enclosing = METER.set(self)
        torch.UntypedStorage.resize_ = lambda storage, nbytes: self._resize_storage(storage, nbytes)
        return super().__enter__()

    def __exit__(self, *exc_info):
        for handle in self._handles:
            handle.remove()
        METER.set(self._enclosing)
        del torch.UntypedStorage.resize_  # the inherited one shows again
        return super().__exit__(*exc_info)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors: list[torch.Tensor] = []
        _collect(args, tensors)
        if kwargs:
            _collect(kwargs.values(), tensors)
        if (func is LIFT or not makes_views(func)) and not (args and result is args[0]):  # else its storages are the inputs'
            _collect((result,), tensors)
        self._see_all(tensors)
        self._on_operation(func, args, kwargs, result, tensors)
        return result

    def _on_operation(self, func, args: tuple, kwargs: dict, result: Any, tensors: list[torch.Tensor]) -> None:
        """For those who count more than memory. tensors: all that go in and come out."""

    @property
    def held_bytes(self) -> int:
        """Bytes held in tensors now."""
        return self._total

    def most_held_bytes(self) -> int:
        """The most bytes held since the last call."""
        with self._lock:
            most, self._most_total = self._most_total, self._total
        return most

    def held_by_category(self) -> dict[str, int]:
        """Category → bytes held now."""
        with self._lock:
            return _by_category(self._held_now())

    def note_end(self) -> None:
        """The function has returned: what is held now is what RankMemory.now tells."""
        with self._lock:
            self._photograph()
            self._end = self._held_now()

    def result(self) -> RankMemory:
        """What was held at the end and at the peak."""
        with self._lock:
            self._photograph()
            return RankMemory(_by_category(self._held_now() if self._end is None else self._end),
                              _by_category(self._peak))

    def _held_now(self) -> list[tuple[_Held, int]]:
        return [(held, held.nbytes) for held in self._held.values()]

    def see(self, value: Any, category: str | None = None) -> None:
        """Count the tensors inside `value`."""
        self._see_all(tensors_in(value), category)

    def _see_all(self, tensors: list[torch.Tensor], category: str | None = None) -> None:
        known = self._held
        for tensor in tensors:
            if type(tensor) in PLAIN_TENSORS and tensor.layout is torch.strided:  # nearly all, and most are known
                storage = tensor.untyped_storage()
                held = known.get(storage._cdata)
                if held is None or held.nbytes != storage.nbytes() or category not in (None, held.category):
                    self._follow(storage, category)
            else:
                for part in _parts(tensor):
                    self._follow(part.untyped_storage(), category)

    def _follow(self, storage: torch.UntypedStorage, category: str | None = None) -> None:
        """Count a storage, at the size that it has now."""
        nbytes = storage.nbytes()
        with self._lock:
            held = self._held.get(storage._cdata)
            if held is None:
                if storage.device.type in self.IGNORED_DEVICES:
                    return
                held = self._hold(storage)
            if held.nbytes != nbytes:
                self._resize(held, nbytes)
            if category:
                held.category = category

    def _hold(self, storage: torch.UntypedStorage) -> _Held:
        """Count a storage that is new."""
        key = storage._cdata
        with self._lock:
            held = self._held[key] = _Held(weakref.ref(storage, lambda _: self._forget(key)), 0)
            self._resize(held, storage.nbytes())
        return held

    def _resize_storage(self, storage: torch.UntypedStorage, nbytes: int) -> torch.UntypedStorage:
        """UntypedStorage.resize_, of which no operation tells: how FSDP frees a layer, and gets it back."""
        resized = super(torch.UntypedStorage, storage).resize_(nbytes)
        self._follow(storage)
        return resized

    def _resize(self, held: _Held, nbytes: int) -> None:
        if nbytes < held.nbytes:
            self._photograph()
        self._total += nbytes - held.nbytes
        held.nbytes = nbytes
        self._most_total = max(self._most_total, self._total)
        if self._total > self._peak_total:
            self._peak_total, self._peak_taken = self._total, False

    def _forget(self, key: int) -> None:
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._resize(held, 0)
                self._held.pop(key, None)

    def _photograph(self) -> None:
        if not self._peak_taken:
            self._peak = self._held_now()
            self._peak_taken = True

    # ── categories ──

    def _on_parameter(self, module, name, parameter) -> None:
        if is_wrapped(parameter):
            return
        if isinstance(parameter, torch.Tensor) and not is_lazy(parameter):  # its first forward pass makes it
            self.see(parameter, "parameters")
            if parameter.requires_grad and parameter.is_leaf:
                parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _on_forward(self, module, args, output) -> None:
        """Parameters whose data was put in place for this forward pass only are parameters all the same."""
        if module._parameters:
            self._see_all([p for p in module._parameters.values() if p is not None and not is_wrapped(p)], "parameters")

    def _on_gradient(self, parameter) -> None:
        if parameter.grad is not None:
            self._see_all([parameter.grad], "gradients")

    def _on_step(self, optimizer, args, kwargs) -> None:
        for group in optimizer.param_groups:
            self._see_all(group["params"], "parameters")
            self._see_all([parameter.grad for parameter in group["params"] if parameter.grad is not None], "gradients")
        self.see([list(state.values()) for state in optimizer.state.values()], "optimizer state")


METER: OfRank[MemoryMeter] = OfRank()


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in lists, tuples and dictionaries, in order. (torch's tree_leaves takes ten times as long.)"""
    found: list[torch.Tensor] = []
    _collect((value,), found)
    return found


def _collect(parts: Iterable, found: list[torch.Tensor]) -> None:
    for part in parts:
        kind = type(part)
        if kind in WITHOUT_TENSORS:
            continue
        if kind in PLAIN_TENSORS or isinstance(part, torch.Tensor):
            found.append(part)
        elif isinstance(part, (list, tuple)):
            _collect(part, found)
        elif isinstance(part, dict):
            _collect(part.values(), found)


@functools.cache
def makes_views(func) -> bool:
    """Whether all that this operation returns are views of its inputs."""
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def bytes_behind(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the memory that these tensors keep alive: a view keeps all of it, and two views of one count once."""
    return sum({x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in tensors}.values())


def held_bytes(after_s: float = 0.0) -> int:
    """Bytes that this rank holds in tensors at this moment, or so many seconds later.

    After some milliseconds gloo's threads have let go of the buffer of the last collective.
    Raises: RuntimeError outside a rank, or where run_ranks was told memory=False.
    """
    if after_s:
        time.sleep(after_s)
    return _meter().held_bytes


def most_held_bytes() -> int:
    """The most bytes that this rank held in tensors since it last called this function.  Raises: as held_bytes."""
    return _meter().most_held_bytes()


def held_by_category() -> dict[str, int]:
    """As held_bytes, by category, so far as it is known by now which tensors are what.  Raises: as held_bytes."""
    return _meter().held_by_category()


def is_measured() -> bool:
    """Whether this is a rank whose memory is measured."""
    return METER.get() is not None


def _meter() -> MemoryMeter:
    meter = METER.get()
    if meter is None:
        raise RuntimeError("held bytes are known inside a rank whose memory is measured: run_ranks(fn, n) with memory=True")
    return meter


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that hold its numbers here: of a DTensor this rank's shard, of a sparse tensor indices and values."""
    if is_traceable_wrapper_subclass(tensor):
        for part in map(tensor.__getattribute__, tensor.__tensor_flatten__()[0]):
            if isinstance(part, torch.Tensor):  # a mesh may be among them
                yield from _parts(part)
    elif tensor.layout == torch.strided:
        yield tensor
    elif tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())


def is_wrapped(tensor: Any) -> bool:
    """By torch.func.grad or vmap, for as long as they take: another tensor has the memory."""
    return isinstance(tensor, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _by_category(held: list[tuple[_Held, int]]) -> dict[str, int]:
    totals = dict.fromkeys(CATEGORIES, 0)
    for storage, nbytes in held:
        totals[storage.category] += nbytes
    return totals
