"""Tensors with shapes and no numbers, made quickly: torch's fake tensors, whose results are found by a cheaper key.

torch remembers what each operation makes of such inputs, but looks for it by a key of some thirty facts a tensor, which
takes half the time of recording a program. Here those that can differ between strided tensors are enough; the first
time of each key, and whatever has none, goes torch's own way. What is remembered is made again in as few calls as can be.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map_only

from utils.simulation.functional import FunctionalCollectives
from utils.simulation.numbers import DRAWN, MAKERS, MOST_AT_RANDOM, MOST_DRAWN_ALONG, is_kept, made_for_real, stays_known
from utils.simulation.refusals import NEEDS_ARRAY, NEEDS_DENSE, NeedsNumbers, NotSimulated, refused

NO_OPTIONS: Mapping[str, Any] = {}
PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})
NO_PLAIN_KEY = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
COMMUNICATION = ("c10d", "_dtensor", "symm_mem")  # operators that begin calls without their group being asked
MOST_TEMPLATE_BYTES = 1 << 12
RESIZE = torch.ops.aten.resize_
VIEWS_TO_TORCH_UNKNOWN = (torch.ops.aten._unsafe_view.default, torch.ops.aten.unbind.int)  # which it therefore forgets


class _NoKey(Exception):
    """These inputs are for torch to judge."""


class _Output(NamedTuple):
    """One result: input number `given` itself, or a new tensor, perhaps a view of input number `viewed`; else None."""

    given: int | None
    viewed: int | None
    shape: tuple[int, ...] | None
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device | None
    requires_grad: bool


class Recipe:
    """What an operation makes. cost: what a mode above notes of it, of inputs no two of which are one tensor."""

    __slots__ = ("cost", "is_in_place", "kind", "new", "outputs")

    def __init__(self, outputs: list[_Output], kind: type | None):
        """kind: tuple or list; None for a single one."""
        self.outputs, self.kind, self.cost = outputs, kind, None
        self.is_in_place = all(output.given is not None for output in outputs)
        self.new = [i for i, output in enumerate(outputs)  # those with memory of their own
                    if output.given is output.viewed is None and output.shape is not None]

    def result_of(self, made: list) -> Any:
        """As the operation returns it."""
        return self.kind(made) if self.kind else made[0]


class ShapesOnly(FakeTensorMode):
    """Fake tensors. known: what earlier operations made, to be shared by the modes of one process."""

    def __init__(self, known: dict[tuple, Any]):
        super().__init__(allow_non_fake_inputs=True)
        self._known, self._torch_keys = known, {}
        self._functional = FunctionalCollectives()
        self._of_arrays: dict[int, torch.UntypedStorage] = {}  # what has the memory of NumPy arrays
        self.has_drawn_unknown = False  # from a generator that has not been seeded since
        self._attributes = vars(FakeTensor(self, torch.empty(0, device="meta"), "cpu"))  # of every new one
        self._on_data_ptr = (torch._C._set_warn_deprecated_on_mutable_data_ptr if self._allow_unsafe_data_ptr_access
                             else torch._C._set_throw_on_mutable_data_ptr)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, so torch's compiler need not be told to keep away."""
        return False

    def recall(self, func, args: Sequence, kwargs: Mapping[str, Any]) -> tuple[Recipe | None, list[FakeTensor]]:
        """What this operation makes, if that is remembered, and its inputs. For a mode above this one."""
        tensors: list[FakeTensor] = []
        recipe = self._known.get(self._key_of(func, args, kwargs, tensors))
        if recipe is not None and is_random(func):
            self._draw_unknown(func, args, kwargs)
        return recipe, tensors

    def made(self, recipe: Recipe, args: Sequence) -> list:
        """Its outputs, made of these inputs. For a mode above this one."""
        if recipe.is_in_place:
            return [args[output.given] for output in recipe.outputs]
        with torch._C._DisableTorchDispatch():
            return [self._make(output, args) for output in recipe.outputs]

    def __torch_dispatch__(self, func, types, args: Sequence = (), kwargs: Mapping[str, Any] = NO_OPTIONS):
        if func.namespace == "_c10d_functional":
            with self:
                return self._functional(func, args, kwargs)
        if func.namespace in COMMUNICATION:
            raise NotSimulated(func)
        key = self._key_of(func, args, kwargs, tensors := [])
        if (recipe := self._known.get(key)) is not None:
            if is_random(func):
                self._draw_unknown(func, args, kwargs)
            return recipe.result_of(self.made(recipe, args))
        if (made := self._known.get((MAKERS, key))) is not None:
            with no_dispatch():
                return self.known(made.clone())
        packet = func.overloadpacket
        if "sparse" in packet.__name__:
            raise NeedsNumbers(NEEDS_DENSE)
        if is_random(func):
            if packet in DRAWN and (drawn := self._drawn(func, args, kwargs)) is not None:
                return drawn
            self._draw_unknown(func, args, kwargs)
        before = args[0].constant if packet is RESIZE else None
        enclosing, self._torch_keys = self._torch_keys, {}
        try:
            with _hidden_numbers(tensors if key is not None else ()):  # torch remembers nothing of tensors that have some
                result = self.dispatch(func, types, args, kwargs)
            entry = FakeTensorMode.cache.get(self._torch_keys.get(func))
        except DataDependentOutputException as error:
            refused.append(error)
            raise
        finally:
            self._torch_keys = enclosing
        if packet in MAKERS and type(result) is FakeTensor and result.constant is None and is_kept(result):
            return self._with_numbers(key, func, args, kwargs, result)
        if before is not None:  # as many as there is room for, as the real one has them
            with no_dispatch():
                result.constant = before.clone().resize_(result.shape)
            self.fake_tensor_converter.add_constant_storage_mapping(result)
        if key is not None and packet not in DRAWN and (recipe := _recipe_of(entry, func, result)) is not None:
            self._known[key] = recipe
        return result

    def invalidate_written_to_constants(self, func, flat_arg_fake_tensors, args, kwargs) -> None:
        """torch forgets what one tensor knew, and not what those in a list did, such as a foreach operation's."""
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.forget(value if isinstance(value, (list, tuple)) else [value])
        super().invalidate_written_to_constants(func, flat_arg_fake_tensors, args, kwargs)

    def may_turn_const(self, tensor: torch.Tensor) -> bool:
        """Torch asks whether what it computed from known numbers is to keep its own."""
        return tensor.device.type == "cpu" and stays_known(tensor)

    def forget(self, tensors: Sequence[torch.Tensor]) -> None:
        """Numbers that nobody knows are written to them.  Raises: NeedsNumbers where an array has the same memory."""
        for tensor in tensors:
            if isinstance(tensor, FakeTensor) and tensor.constant is not None:
                if tensor.constant.untyped_storage()._cdata in self._of_arrays:
                    raise NeedsNumbers(NEEDS_ARRAY)
                self.fake_tensor_converter.invalidate_constant_aliases(tensor.constant)

    def of_array(self, tensor: torch.Tensor) -> FakeTensor:
        """What is known of it is what the NumPy array holds whose memory it has."""
        if tensor.device.type != "cpu" or not is_kept(tensor):
            return self.from_tensor(tensor)
        storage = tensor.untyped_storage()
        self._of_arrays[storage._cdata] = storage
        return self.known(tensor)

    def given(self, real: torch.Tensor) -> FakeTensor:
        """One that the program finds, or is given as its input."""
        if isinstance(real, FakeTensor):
            return real
        keeps = real.device.type == "cpu" and is_kept(real) and not real.requires_grad
        if not keeps:
            return self.from_tensor(real)
        with no_dispatch():
            own = real.detach().clone()
        return self.known(own)

    def known(self, real: torch.Tensor) -> FakeTensor:
        """A tensor that keeps its numbers: those of `real`, which nobody else has."""
        output = _Output(None, None, tuple(real.shape), real.stride(), 0, real.dtype, real.device, False)
        with torch._C._DisableTorchDispatch():
            fake = self._make(output, ())
        fake.constant = real
        self.fake_tensor_converter.add_constant_storage_mapping(fake)
        return fake

    def _with_numbers(self, key, func, args: Sequence, kwargs: Mapping[str, Any], result: FakeTensor) -> FakeTensor:
        if result.fake_device.type != "cpu" or "out" in kwargs:
            return result
        with no_dispatch():
            real = made_for_real(func, args, kwargs)
            if key is not None and real.nbytes <= MOST_TEMPLATE_BYTES:
                self._known[MAKERS, key] = real.clone()
        return self.known(real)

    def _drawn(self, func, args: Sequence, kwargs: Mapping[str, Any]) -> FakeTensor | None:
        """Whole numbers at random, if they are few, or an order."""
        if self.has_drawn_unknown and kwargs.get("generator") is None and not _is_seed(func, args):
            return None
        if func.overloadpacket is torch.ops.aten.random_:
            if args[0].constant is None or args[0].numel() > MOST_AT_RANDOM:
                return None
            with no_dispatch():
                func(args[0].constant, *args[1:], **kwargs)
            return args[0]
        with no_dispatch():
            if func.overloadpacket is torch.ops.aten.randint and math.prod(args[-1]) > MOST_AT_RANDOM:
                return None
            real = func(*args, **kwargs | {"device": "cpu"})
        return self.known(real) if is_kept(real) else None

    def draw_along(self, fill: Callable[[torch.Tensor], Any], tensor: FakeTensor) -> None:
        """For a function that looks at what it draws: its tensor is not told, and the generator moves on as by `fill`."""
        state = torch.get_rng_state()
        tensor.normal_()
        if tensor.numel() > MOST_DRAWN_ALONG:
            self.has_drawn_unknown = True
            return
        with no_dispatch():
            torch.set_rng_state(state)
            fill(_ones_like(tensor))

    def _draw_unknown(self, func, args: Sequence, kwargs: Mapping[str, Any]) -> None:
        """Numbers that nobody is told, so that those which are drawn next are the real program's. Not if they are many."""
        if math.prod(_size_drawn(args)) > MOST_DRAWN_ALONG:
            self.has_drawn_unknown = True
            return
        with no_dispatch():
            options = {name: value for name, value in kwargs.items() if name != "device"}
            own_args, own_options = tree_map_only(torch.Tensor, _ones_like, (args, options))
            func(*own_args, **own_options)

    def _make(self, output: _Output, args: Sequence):
        """What torch makes, without its checks; no mode is active here, so that these tensors of "meta" are plain ones."""
        if output.given is not None:
            return args[output.given]
        if output.shape is None:
            return None
        plain = torch.empty_strided(output.shape, output.stride, dtype=output.dtype, device="meta")
        if output.viewed is not None:
            plain.set_(args[output.viewed].untyped_storage(), output.offset, output.shape, output.stride)
        fake = torch.Tensor._make_subclass(FakeTensor, plain, output.requires_grad, dispatch_device=True,
                                           device_for_backend_keys=output.device)
        self._on_data_ptr(fake)
        vars(fake).update(self._attributes, _fake_device=output.device)
        return fake

    def _cache_key(self, state, func, *arguments):
        key = super()._cache_key(state, func, *arguments)
        self._torch_keys.setdefault(func, key)
        return key

    def _key_of(self, func, args: Sequence, kwargs: Mapping[str, Any], tensors: list) -> tuple | None:
        """Where the result is remembered; None for what is not. tensors: to which the inputs are added."""
        key = [func, torch.get_default_dtype(), torch.is_inference_mode_enabled()]
        try:
            self._add(key, args, tensors)
            if kwargs:
                key += kwargs
                self._add(key, kwargs.values(), tensors)
        except _NoKey:
            return None
        known = [tensor for tensor in tensors if tensor.constant is not None]
        if known and (len(known) == len(tensors) or func._schema.is_mutable):  # else no number of theirs matters
            return None
        return tuple(key)

    def _add(self, key: list, values, tensors: list) -> None:
        """What of these inputs decides about the result, to the key."""
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if (value.fake_mode is not self or value.layout is not torch.strided or value.is_conj()
                        or value.is_neg()):
                    raise _NoKey
                key += (value.shape, value.stride(), value.dtype, value.storage_offset(), value.fake_device,
                        value.requires_grad)
                tensors.append(value)
            elif kind in (list, tuple):
                key += (kind, len(value))
                self._add(key, value, tensors)
            elif kind not in PLAIN and (callable(value) or isinstance(value, NO_PLAIN_KEY)):
                raise _NoKey
            else:
                key += (kind, value)  # 1 and 1.0 are equal keys, but not equal inputs


def shapes_only() -> ShapesOnly | None:
    """The mode in which the program is being recorded; None beside that."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)


@functools.cache
def is_random(func) -> bool:
    """Whether an operation draws from a generator."""
    return func.namespace == "aten" and torch.Tag.nondeterministic_seeded in func.tags


def _ones_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.ones(tensor.shape, dtype=tensor.dtype)


def _size_drawn(args: Sequence) -> Sequence[int]:
    """Of an operation that draws: the shape of a tensor that it is given, or the size that it is asked for."""
    first = next((arg for arg in args if isinstance(arg, (torch.Tensor, list, tuple))), ())
    return first.shape if isinstance(first, torch.Tensor) else first


def _is_seed(func, args: Sequence) -> bool:
    """A DataLoader's: whichever it is, its samples have an order."""
    return func.overloadpacket is torch.ops.aten.random_ and args[0].dim() == 0


@contextmanager
def _hidden_numbers(tensors: Sequence[FakeTensor]):
    known = [(tensor, tensor.constant) for tensor in tensors if tensor.constant is not None]
    for tensor, _ in known:
        tensor.constant = None
    try:
        yield
    finally:
        for tensor, constant in known:
            tensor.constant = constant


def _recipe_of(entry: Any, func, result: Any) -> Recipe | None:
    """Of torch's own entry; None where torch says that it must not be remembered, or where it is not of plain tensors."""
    if func in VIEWS_TO_TORCH_UNKNOWN:
        made = result if isinstance(result, (list, tuple)) else [result]
        return Recipe([_Output(None, 0, tuple(x.shape), x.stride(), x.storage_offset(), x.dtype, x.fake_device, False)
                       for x in made], None if made is not result else type(result))
    if not hasattr(entry, "output_infos"):
        return None
    outputs = [_output_of(info, func) for info in entry.output_infos]
    return None if None in outputs else Recipe(outputs, tuple if entry.is_output_tuple else None)


def _output_of(info: Any, func) -> _Output | None:
    about = info.metadata
    if about is None:
        is_plain = info.inplace_idx is not None or info.constant_value is None
        return _Output(info.inplace_idx, None, None, (), 0, None, None, False) if is_plain else None
    if about.is_conj or about.is_neg or about.layout is not torch.strided:
        return None
    return _Output(None, info.view_idx if func.is_view else None, tuple(about.shape), tuple(about.stride),
                   about.storage_offset, about.dtype, about.device, about.requires_grad)
