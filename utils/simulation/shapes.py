"""Tensors with shapes and no numbers, made quickly: torch's fake tensors, whose results are found by a cheaper key.

torch remembers what each operation makes of such inputs, but looks for it by a key of some thirty facts a tensor, which
takes half the time of recording a program. Here those that can differ between strided tensors are enough; the first
time of each key, and whatever has none, goes torch's own way.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

NO_OPTIONS: Mapping[str, Any] = {}


class _NoKey(Exception):
    """These inputs are for torch to judge."""


class ShapesOnly(FakeTensorMode):
    """Fake tensors. known: what earlier operations made, to be shared by the modes of one process."""

    def __init__(self, known: dict[tuple, Any]):
        super().__init__(allow_non_fake_inputs=True)
        self._known, self._torch_keys = known, {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, so torch's compiler need not be told to keep away."""
        return False

    def __torch_dispatch__(self, func, types, args: Sequence = (), kwargs: Mapping[str, Any] = NO_OPTIONS):
        key = self._key_of(func, args, kwargs)
        if (entry := self._known.get(key)) is not None:
            return self._output_from_cache_entry(None, entry, None, func, args)
        enclosing, self._torch_keys = self._torch_keys, {}
        try:
            result = self.dispatch(func, types, args, kwargs)
            entry = FakeTensorMode.cache.get(self._torch_keys.get(func))
        finally:
            self._torch_keys = enclosing
        if key is not None and hasattr(entry, "output_infos"):  # else torch says that it must not be remembered
            self._known[key] = entry
        return result

    def _cache_key(self, state, func, *arguments):
        key = super()._cache_key(state, func, *arguments)
        self._torch_keys.setdefault(func, key)
        return key

    def _key_of(self, func, args: Sequence, kwargs: Mapping[str, Any]) -> tuple | None:
        key = [func, torch.get_default_dtype(), torch.is_inference_mode_enabled()]
        try:
            self._add(key, args)
            if kwargs:
                key += kwargs
                self._add(key, kwargs.values())
        except _NoKey:
            return None
        return tuple(key)

    def _add(self, key: list, values) -> None:
        """What of these inputs decides about the result."""
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if (value.fake_mode is not self or value.constant is not None or value.layout is not torch.strided
                        or value.is_conj() or value.is_neg()):
                    raise _NoKey
                key += (value.shape, value.stride(), value.dtype, value.storage_offset(), value.fake_device,
                        value.requires_grad)
            elif kind in (list, tuple):
                key += (kind, len(value))
                self._add(key, value)
            elif isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)) or callable(value):
                raise _NoKey
            else:
                key += (kind, value)  # 1 and 1.0 are equal keys, but not equal inputs
