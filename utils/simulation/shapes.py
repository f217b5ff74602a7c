"""Tensors with shapes and no numbers, made quickly: torch's fake tensors, whose results are found by a cheaper key.

torch remembers what each operation makes of such inputs, but looks for it by a key of some thirty facts a tensor, which
takes half the time of recording a program. Here those that can differ between strided tensors are enough; the first
time of each key, and whatever has none, goes torch's own way. What is remembered is made again in as few calls as can be.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from utils.trace.calls import OPERATIONS, flat_tensors

NO_OPTIONS: Mapping[str, Any] = {}
PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})
NO_PLAIN_KEY = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
COMMUNICATION = ("c10d", "_c10d_functional")
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
        return self._known.get(self._key_of(func, args, kwargs, tensors)), tensors

    def made(self, recipe: Recipe, args: Sequence) -> list:
        """Its outputs, made of these inputs. For a mode above this one."""
        if recipe.is_in_place:
            return [args[output.given] for output in recipe.outputs]
        with torch._C._DisableTorchDispatch():
            return [self._make(output, args) for output in recipe.outputs]

    def __torch_dispatch__(self, func, types, args: Sequence = (), kwargs: Mapping[str, Any] = NO_OPTIONS):
        if func.namespace in COMMUNICATION and any(x.constant is not None for x in _fakes_in(args, kwargs)):
            with self._numbers_aside(func, args, kwargs):
                return self.__torch_dispatch__(func, types, args, kwargs)
        key = self._key_of(func, args, kwargs, [])
        if (recipe := self._known.get(key)) is not None:
            return recipe.result_of(self.made(recipe, args))
        if key is not None and func.namespace == "c10d":  # writes into its inputs, and makes no tensor
            with in_kernel_invocation_manager(self):
                return func(*args, **kwargs)
        enclosing, self._torch_keys = self._torch_keys, {}
        try:
            result = self.dispatch(func, types, args, kwargs)
            entry = FakeTensorMode.cache.get(self._torch_keys.get(func))
        finally:
            self._torch_keys = enclosing
        if key is not None and (recipe := _recipe_of(entry, func, result)) is not None:
            self._known[key] = recipe
        return result

    @contextmanager
    def _numbers_aside(self, func, args: Sequence, kwargs: Mapping[str, Any]) -> Iterator[None]:
        """Torch keeps the number of torch.tensor(3.0): what a call writes to loses it, what it reads has it again after."""
        for written in _written_by(func, args, kwargs):
            if written.constant is not None:
                self.fake_tensor_converter.invalidate_constant_aliases(written.constant)
        kept = [(x, x.constant) for x in _fakes_in(args, kwargs)]
        for x, _ in kept:
            x.constant = None
        try:
            yield
        finally:
            for x, constant in kept:
                x.constant = constant

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
        return tuple(key)

    def _add(self, key: list, values, tensors: list) -> None:
        """What of these inputs decides about the result, to the key."""
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if (value.fake_mode is not self or value.constant is not None or value.layout is not torch.strided
                        or value.is_conj() or value.is_neg()):
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


def _fakes_in(args: Sequence, kwargs: Mapping[str, Any]) -> list[FakeTensor]:
    return [x for x in flat_tensors([*args, *kwargs.values()]) if type(x) is FakeTensor]


def _written_by(func, args: Sequence, kwargs: Mapping[str, Any]) -> list[FakeTensor]:
    """The tensors that this call between ranks writes to."""
    arguments = func._schema.arguments
    named = dict(zip((argument.name for argument in arguments), args, strict=False)) | kwargs
    if func.namespace == "c10d":
        operation = OPERATIONS.get(func._opname)
        receiving = named if operation is None else {operation.receives}
    else:
        receiving = {argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write}
    return _fakes_in([value for name, value in named.items() if name in receiving], {})


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
