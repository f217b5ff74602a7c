"""What a rank finds in its process: ranks that are recorded one after the other must not find what the last one left."""

import functools
import io
import os
import pickle
import random
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def own_copy(blob: bytes, shapes: FakeTensorMode) -> Any:
    """What `blob` holds, made anew, with classes of its own too: cloudpickle would give again those of the last rank.

    Its tensors have no numbers: real ones, such as those of a model made in another cell, would keep their old ones
    whatever the program does with them.
    """
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.clear()
    return _Unpickler(blob, shapes).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, blob: bytes, shapes: FakeTensorMode):
        super().__init__(io.BytesIO(blob))
        self._shapes = shapes

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if found is not torch._utils._rebuild_tensor_v2:
            return found
        return lambda *parts: self._shapes.given(found(*parts))


def forget_meshes() -> None:
    """torch remembers how tensors on a mesh are laid out, and with that the mesh, whose groups were the last rank's."""
    for forget in _of_layouts(len(sys.modules)):
        forget()
    if layouts := sys.modules.get("torch.distributed.tensor"):
        layouts.DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache_clear()
        layouts._redistribute._planner_cache.clear()
        torch._C._clear_DTensor_sharding_propagator_cache()


@functools.lru_cache(maxsize=1)
def _of_layouts(n_modules: int) -> list[Callable[[], None]]:
    """What clears the caches of torch's modules about layouts. n_modules: so many are imported."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("torch.distributed.tensor")]
    return [value.cache_clear for module in modules for value in list(vars(module).values())
            if isinstance(value, functools._lru_cache_wrapper)]


def settings_found() -> list[tuple[Callable[[Any], Any], Any]]:
    """What the process has for everyone: torch's settings, random states, variables, folder; each with what sets it."""
    return [(put, get()) for get, put in _SETTINGS]


def random_states() -> list[tuple[Callable[[Any], Any], Any]]:
    """The random states among them."""
    return [(put, get()) for get, put in RANDOM_STATES]


@contextmanager
def put_back(found: list[tuple[Callable[[Any], Any], Any]]):
    """Whatever the block does, the next one finds these settings."""
    try:
        yield
    finally:
        for put, value in found:
            put(value)


def _default_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _set_environment(variables: dict[str, str]) -> None:
    if variables != os.environ:
        os.environ.clear()
        os.environ.update(variables)


RANDOM_STATES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (torch.get_rng_state, torch.set_rng_state),
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
]
_SETTINGS: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (_default_device, torch.set_default_device),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on)),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (torch.get_num_threads, torch.set_num_threads),
    *RANDOM_STATES,
    (lambda: dict(os.environ), _set_environment),
    (os.getcwd, os.chdir),
]
