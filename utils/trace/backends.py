"""What is asked of a group's backend, below the recorder, is asked of the group, where it is seen."""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d


def pass_on_to_groups(names: Iterable[str]) -> None:
    """For the rest of this process's life: torch itself asks groups only, which ask their backends in C++."""
    for name in filter(c10d.Backend.__dict__.__contains__, names):
        setattr(c10d.Backend, name, _asked_of_the_group(name))


def _asked_of_the_group(name: str) -> Callable:
    def call(backend: c10d.Backend, *args, **kwargs):
        return getattr(_group_of(backend), name)(*args, **kwargs)

    return call


def _group_of(backend: c10d.Backend) -> dist.ProcessGroup:
    """Raises: RuntimeError for a backend that belongs to none."""
    for group in dist.distributed_c10d._world.pg_map:
        if any(group._get_backend(torch.device(kind)) is backend for kind in group._device_types):
            return group
    raise RuntimeError("this backend belongs to no group: make one by dist.new_group, and call functions of dist")
