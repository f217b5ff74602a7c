"""What torch does otherwise in a process that records ranks: tensors there have no numbers, and groups no partners."""

import itertools
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed import _meta_registrations, device_mesh
from torch.utils._python_dispatch import _disable_current_modes

NEEDS_NUMBERS = ("this needs a tensor's numbers, and in a simulation tensors have shapes only. Return the tensor itself "
                 "instead of its .item(), give the value as a plain number, or put a stand-in where the program needs it")
NEEDS_SENDER = ("this needs to know which rank a message came from, and a simulated recv() without src= cannot tell. "
                "Name the sender (src=), or do not use what recv() returns")


class NeedsNumbers(RuntimeError):
    """A program looks at what a simulation does not have."""


class UnknownRank:
    """What a receive from anybody returns: it may be ignored or returned, and not be looked at."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise NeedsNumbers(NEEDS_SENDER)

    __index__ = __int__ = __float__ = __bool__ = __hash__ = __str__ = __format__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse

    def __repr__(self) -> str:
        return "a rank that a simulation does not know"


def put_in_place() -> None:
    """For the rest of this process's life; before a recorder is installed, which watches what it finds."""
    dist.new_group = dist.distributed_c10d.new_group = _known_before_or(dist.new_group)
    dist.recv = dist.distributed_c10d.recv = _from_anybody_or(dist.recv)
    c10d.FakeWork._source_rank = lambda work: UnknownRank()
    _meta_registrations.generate_unique_id = itertools.count(1).__next__  # torch's own draws the program's random numbers
    torch.utils.swap_tensors = _take_data_or(torch.utils.swap_tensors)
    torch.Tensor.numpy = _refused_or(torch.Tensor.numpy)
    torch.from_numpy = _without_numbers(torch.from_numpy)
    dist.init_device_mesh = device_mesh.init_device_mesh = _with_numbers(device_mesh.init_device_mesh)
    mesh = device_mesh.DeviceMesh
    mesh.__init__, mesh.mesh = _with_numbers(mesh.__init__), property(_with_numbers(mesh.mesh.fget))


def _known_before_or(make_group: Callable) -> Callable:
    """A mesh makes hundreds of groups on every rank, which is in a few: of the others torch keeps no more than a count."""
    known: set[tuple] = set()  # that torch found nothing wrong with

    def new_group(ranks=None, *args, **kwargs):
        key = () if ranks is None or args or kwargs else tuple(ranks)
        if key in known and dist.get_rank() not in key:
            dist.distributed_c10d._world.group_count += 1
            return dist.GroupMember.NON_GROUP_MEMBER
        group = make_group(ranks, *args, **kwargs)
        if key:
            known.add(key)
        return group

    return new_group


def _from_anybody_or(receive: Callable) -> Callable:
    """A receive whose Work is not asked where its message came from."""

    def recv(tensor, src=None, group=None, tag=0, group_src=None):
        if src is not None or group_src is not None:
            return receive(tensor, src, group, tag, group_src)
        work = dist.irecv(tensor, None, group, tag)
        if work is None:
            return -1
        work.wait()
        return UnknownRank()

    return recv


def _take_data_or(swap: Callable) -> Callable:
    """module.to() swaps such tensors as objects, which fails where anyone holds them: so take the data, if it fits."""

    def swap_or_take(tensor: torch.Tensor, other: torch.Tensor) -> None:
        try:
            tensor.data = other.data
        except RuntimeError:
            swap(tensor, other)

    return swap_or_take


def _refused_or(to_numpy: Callable) -> Callable:
    """Of a tensor that has numbers, they are given as they are."""

    def numpy(tensor: torch.Tensor, *args, **kwargs):
        if isinstance(tensor, FakeTensor):
            raise NeedsNumbers(NEEDS_NUMBERS)
        with _disable_current_modes():
            return to_numpy(tensor, *args, **kwargs)

    return numpy


def _without_numbers(make: Callable) -> Callable:
    """A tensor that shares an array's memory would keep its old numbers whatever the program does with it."""
    return lambda array: torch.ops.aten.lift_fresh(make(array))


def _with_numbers(function: Callable) -> Callable:
    """A mesh is a tensor whose numbers are ranks: it is made and read where no mode takes them away."""

    def with_numbers(*args, **kwargs):
        if any(isinstance(value, FakeTensor) for value in (*args, *kwargs.values())):
            raise NeedsNumbers(NEEDS_NUMBERS + " (a mesh can be given as a list of lists)")
        with _disable_current_modes():
            return function(*args, **kwargs)

    return with_numbers
