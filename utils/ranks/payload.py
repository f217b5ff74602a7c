"""What travels between a notebook and its ranks: functions, inputs and results, by value."""

import copyreg
import functools
import inspect
import io
import pickle
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from utils.deadlocks.errors import BadType

_FILLED_IN, _INPUT = ("rank", "world_size"), "input"


def _cached(fn: Callable, parameters: dict[str, Any]) -> Callable:
    return functools.lru_cache(**parameters)(fn)


def _reduce_cached(cached: Callable):
    """functools.cache and lru_cache: those of a notebook travel as their function, with an empty cache."""
    if cached.__module__ == "__main__":
        return _cached, (cached.__wrapped__, cached.cache_parameters())
    return cached.__qualname__


def _property(fn: Callable, name: str | None) -> functools.cached_property:
    made = functools.cached_property(fn)
    made.attrname = name  # classes that travel are put together attribute by attribute, which nobody tells it of
    return made


copyreg.pickle(type(functools.cache(lambda: None)), _reduce_cached)
copyreg.pickle(functools.cached_property, lambda cached: (_property, (cached.func, cached.attrname)))  # it has a lock


def _code(make: Callable[..., types.CodeType], parts: tuple, filename: str) -> types.CodeType:
    return make(*parts).replace(co_filename=filename)


class _Pickler(cloudpickle.Pickler):
    """Tensors on a GPU travel as CPU tensors, wherever they are: who receives them need not have that GPU.

    Code keeps the name of its file, which cloudpickle 3.1.3 leaves out: errors name a student's line by it.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.CodeType):
            make, parts = self.dispatch_table[types.CodeType](obj)[:2]
            return _code, (make, parts, obj.co_filename)
        torch = sys.modules.get("torch")
        if torch and isinstance(obj, torch.Tensor) and obj.device.type not in ("cpu", "meta"):
            moved = obj.detach().cpu().requires_grad_(obj.requires_grad)
            if isinstance(obj, torch.nn.Parameter):
                moved = torch.nn.Parameter(moved.detach(), obj.requires_grad)
            return moved.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
        return super().reducer_override(obj)


def _dumps(value: Any) -> bytes:
    with io.BytesIO() as file:
        _Pickler(file).dump(value)
        return file.getvalue()


class NotebookTask:
    """Calls a student's function in a rank: bytes of its input in, bytes of its result out."""

    def __init__(self, fn: Callable, slots: list[str]):
        self.fn, self.slots = fn, slots

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In the rank: the notebook's own classes are found by name there, so that its objects can be sent by dist."""
        vars(self).update(state)
        for name, value in getattr(self.fn, "__globals__", {}).items():
            if isinstance(value, type) and value.__module__ == "__main__":
                setattr(sys.modules["__main__"], name, value)

    @classmethod
    def of(cls, fn: Callable, has_inputs: bool) -> "NotebookTask":
        """Raises: TypeError if `fn` is not a function that run_ranks can call."""
        if not callable(fn):
            raise BadType(f"run_ranks needs a function to run on every rank; got {type(fn).__name__}: {fn!r:.80}"
                            " (pass the function itself, without calling it)")
        return cls(fn, _slots(fn, has_inputs))

    def packed(self) -> bytes:
        """Raises: TypeError naming the variable that cannot be copied to another process."""
        return pack(self, f"the function {_name(self.fn)}", self.fn)

    def __call__(self, input_blob: bytes, done: Callable[[], None], ask: Callable[[], bytes]) -> bytes:
        import torch.distributed as dist

        rank = dist.get_rank()
        result = self.fn(*self.arguments(rank, dist.get_world_size(), input_blob))
        done()
        return pack(result, f"what rank {rank} returned")

    def arguments(self, rank: int, world_size: int, input_blob: bytes) -> list:
        """What the function receives on this rank."""
        filled = dict(zip(_FILLED_IN, (rank, world_size), strict=True))
        return [filled[slot] if slot in filled else cloudpickle.loads(input_blob) for slot in self.slots]


def pack(value: Any, what: str, fn: Callable | None = None) -> bytes:
    """Bytes of `value`, its tensors on the CPU.  Raises: TypeError that names the part which cannot travel to a process."""
    name_hidden_modules()
    try:
        return _dumps(value)
    except Exception as error:
        culprit = _culprit_variable(fn) if fn is not None else _culprit_part(value, "")
        place = f" ({culprit})" if culprit else ""
        raise BadType(
            f"{what} cannot be copied to another process{place}: {error}. Tensors, numbers, strings and collections "
            "of them travel; open files, locks, sockets and generators do not: make them inside the function.") from None


def packed_inputs(inputs: Sequence | None, world_size: int) -> list[bytes]:
    """One blob a rank.  Raises: TypeError as pack does."""
    return [pack(value, f"inputs[{rank}]") for rank, value in enumerate([None] * world_size if inputs is None else inputs)]


def name_hidden_modules() -> None:
    """Both ends must know by name what torch's once_differentiable refers to, a module that cannot be imported.

    cloudpickle takes what is not in sys.modules for the notebook's own, and copies it, classes and all.
    """
    if torch := sys.modules.get("torch"):
        sys.modules.setdefault("torch._C._functions", torch._C._functions)


def _slots(fn: Callable, has_inputs: bool) -> list[str]:
    """What each parameter of `fn` receives."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return [_INPUT] if has_inputs else []  # a builtin without a signature
    keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
             and (p.default is p.empty or p.name in _FILLED_IN)]
    if has_inputs and set(names).issubset(_FILLED_IN):  # then the first one with a default, or *args, takes the input
        names = [p.name for p in parameters if p.name not in _FILLED_IN and p.kind is not p.KEYWORD_ONLY][:1] + names
    others = [name for name in names if name not in _FILLED_IN]
    if not keyword_only:
        if has_inputs and len(others) == 1:
            return [name if name in _FILLED_IN else _INPUT for name in names]
        if not has_inputs and not others:
            return names
        in_place = all(name in (_FILLED_IN[at], *others) for at, name in enumerate(names[:2]))
        if not has_inputs and len(names) <= 2 and in_place:  # fn(r, n) and fn(rank, n), too
            return list(_FILLED_IN[:len(names)])
    raise BadType(_signature_complaint(fn, names + keyword_only, has_inputs))


def _signature_complaint(fn: Callable, names: list[str], has_inputs: bool) -> str:
    takes = f"{_name(fn)}({', '.join(names)})"
    if has_inputs:
        return (f"with inputs, each rank calls the function with its own input: write def {_name(fn)}(x), or "
                f"(x, rank, world_size); got {takes}")
    return (f"without inputs, a rank can fill in nothing but its rank and the world size: write def {_name(fn)}(), "
            f"(rank) or (rank, world_size), or pass inputs=[...]; got {takes}")


def _name(fn: Callable) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _culprit_variable(fn: Callable) -> str:
    """The variable that `fn` uses and that cannot be pickled."""
    try:
        used = inspect.getclosurevars(inspect.unwrap(fn))
    except (TypeError, ValueError):
        return ""
    for name, value in {**used.globals, **used.nonlocals}.items():
        if not _travels(value):
            inner = _culprit_variable(value) if inspect.isfunction(value) else ""
            return inner or f"it uses the variable {name!r}, a {type(value).__name__}"
    return ""


def _culprit_part(value: Any, path: str) -> str:
    """Where in a collection the value sits that cannot be pickled."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, item in items:
        if not _travels(item):
            return _culprit_part(item, f"{path}[{key!r}]")
    return f"its part {path} is a {type(value).__name__}" if path else f"a {type(value).__name__}"


def _travels(value: Any) -> bool:
    try:
        _dumps(value)
    except Exception:
        return False
    return True

