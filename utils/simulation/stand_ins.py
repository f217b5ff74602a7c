"""What torch does otherwise in a process that records ranks: tensors there have no numbers, and groups no partners."""

import functools
import itertools
import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed import _meta_registrations
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import DataLoader

from utils.simulation import objects, reducer
from utils.simulation.numbers import UnknownNumber, UnknownRank, of_unknown
from utils.simulation.refusals import NEEDS_ITEM, NEEDS_NUMBERS, NEEDS_STORE, WRITES_NUMBERS, NeedsNumbers
from utils.simulation.shapes import shapes_only
from utils.simulation.workers import by_workers_here, with_workers_here
from utils.trace.spans import span
from utils.trace.user_code import BLOCKING

BATCH = "batch_isend_irecv"
OF_A_STORE = (
    "add", "append", "check", "compare_set", "delete_key", "get", "multi_get", "multi_set", "num_keys", "set", "wait")
OF_NUMBERS = (
    "exp", "log", "log2", "log10", "sqrt", "isnan", "isinf", "isfinite", "floor", "ceil", "trunc", "fabs", "pow")


def put_in_place() -> None:
    """For the rest of this process's life; before a recorder is installed, which watches what it finds."""
    reducer.put_in_place()
    dist.new_group = dist.distributed_c10d.new_group = _known_before_or(dist.new_group)
    dist.batch_isend_irecv = dist.distributed_c10d.batch_isend_irecv = _as_a_batch(dist.batch_isend_irecv)
    dist.recv = dist.distributed_c10d.recv = _from_anybody_or(dist.recv)
    c10d.FakeWork._source_rank = lambda work: UnknownRank()
    _meta_registrations.generate_unique_id = itertools.count(1).__next__  # torch's own draws the program's random numbers
    torch.utils.swap_tensors = _take_data_or(torch.utils.swap_tensors)
    torch.Tensor.numpy = _known_or_refused(torch.Tensor.numpy)
    torch.Tensor.item = _known_or_unknown(torch.Tensor.item)
    torch.Tensor.tolist = _known_or_unknown_in_lists(torch.Tensor.tolist)
    FakeTensor.__float__, FakeTensor.__repr__ = _known_or_item(torch.Tensor.__float__), _without_its_numbers
    FakeTensor.data = property(torch.Tensor.data.__get__, _set_data(torch.Tensor.data.__set__))
    FakeTensor.__deepcopy__, FakeTensor.__reduce_ex__ = _copied, _not_written
    torch.Tensor.__format__ = _by_item(torch.Tensor.__format__)
    for name in OF_NUMBERS:
        setattr(math, name, of_unknown(getattr(math, name)))
    json.JSONEncoder.default = _known_or_refused_as_json(json.JSONEncoder.default)
    torch.manual_seed = torch.random.manual_seed = _known_again(torch.manual_seed)
    torch.Tensor.data_ptr = _of_memory(torch.Tensor.data_ptr)
    torch.UntypedStorage.data_ptr = _of_storage(torch.UntypedStorage.data_ptr)
    torch.set_anomaly_enabled = _without_looking(torch.set_anomaly_enabled)
    for name in ("from_numpy", "as_tensor", "asarray"):
        setattr(torch, name, _sharing_memory(getattr(torch, name)))
    dist.get_backend = dist.distributed_c10d.get_backend = _gloo  # programs, and torch itself, branch on it
    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = _barrier
    torch.compile = _as_it_is
    DataLoader.__init__ = with_workers_here(DataLoader.__init__)
    DataLoader._get_iterator = by_workers_here(DataLoader._get_iterator)
    torch.nn.init._no_grad_trunc_normal_ = _drawn_along(torch.nn.init._no_grad_trunc_normal_)
    torch.amp.GradScaler._maybe_opt_step = _without_infinities
    for name in OF_A_STORE:
        setattr(dist.Store, name, _no_store)
    dist.distributed_c10d._object_to_tensor = objects.with_numbers(dist.distributed_c10d._object_to_tensor)
    dist.distributed_c10d._pickler, dist.distributed_c10d._unpickler = objects.Pickler, objects.Unpickler


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


def _as_a_batch(begin: Callable) -> Callable:
    """Calls that begin together, which backends that know no batches cannot tell."""

    def batch_isend_irecv(p2p_op_list):
        with span(BATCH):
            return begin(p2p_op_list)

    return batch_isend_irecv


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

    BLOCKING.add(recv.__code__)
    return recv


def _take_data_or(swap: Callable) -> Callable:
    """module.to() swaps such tensors as objects, which fails where anyone holds them: so take the data, if it fits."""

    def swap_or_take(tensor: torch.Tensor, other: torch.Tensor) -> None:
        try:
            tensor.data = other.data
        except RuntimeError:
            swap(tensor, other)

    return swap_or_take


def _known_or_refused(to_numpy: Callable) -> Callable:
    """Of a tensor that has numbers, they are given as they are."""

    def numpy(tensor: torch.Tensor, *args, **kwargs):
        if isinstance(tensor, FakeTensor):
            if tensor.constant is None:
                raise NeedsNumbers(NEEDS_NUMBERS)
            tensor = tensor.constant
        with _disable_current_modes():
            return to_numpy(tensor, *args, **kwargs)

    return numpy


def _known_or_unknown(item: Callable) -> Callable:
    def number(tensor: torch.Tensor) -> Any:
        if isinstance(tensor, FakeTensor) and tensor.constant is None and tensor.numel() == 1:
            UnknownNumber.was_given = True
            return UnknownNumber()
        return item(tensor)

    return number


def _known_or_unknown_in_lists(to_list: Callable) -> Callable:
    def numbers(tensor: torch.Tensor) -> Any:
        if not isinstance(tensor, FakeTensor) or tensor.constant is not None:
            return to_list(tensor)
        return [numbers(row) for row in tensor] if tensor.dim() else tensor.item()

    return numbers


def _known_or_item(to_float: Callable) -> Callable:
    def number(tensor: torch.Tensor) -> float:
        if tensor.constant is None and tensor.numel() == 1:
            raise NeedsNumbers(NEEDS_ITEM)
        return to_float(tensor)

    return number


def _without_its_numbers(tensor: FakeTensor) -> str:
    if tensor.constant is not None:
        with _disable_current_modes():
            return repr(tensor.constant)
    return f"tensor(?, size={tuple(tensor.shape)}, dtype={tensor.dtype})"


def _set_data(set_data: Callable) -> Callable:
    """What is known of it afterwards is what is known of the other one, whose memory it has from now on."""

    def put(tensor: FakeTensor, other: torch.Tensor) -> None:
        set_data(tensor, other)
        tensor.constant = getattr(other, "constant", None)
        if tensor.constant is not None:
            tensor.fake_mode.fake_tensor_converter.add_constant_storage_mapping(tensor)

    return put


def _drawn_along(fill: Callable) -> Callable:
    """An initialisation that draws again and again, until all numbers are as they should be."""

    def filled(tensor: torch.Tensor, *args, **kwargs) -> torch.Tensor:
        if not isinstance(tensor, FakeTensor):
            return fill(tensor, *args, **kwargs)
        with torch.no_grad():
            shapes_only().draw_along(lambda real: fill(real, *args, **kwargs), tensor)
        return tensor

    return filled


def _without_infinities(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, _: Any, *args, **kwargs) -> Any:
    """No gradient is infinite, so no step is left out."""
    return optimizer.step(*args, **kwargs)


def _no_store(*_: Any) -> NoReturn:
    raise NeedsNumbers(NEEDS_STORE)


def _known_or_refused_as_json(to_json: Callable) -> Callable:
    def default(encoder: json.JSONEncoder, value: Any) -> Any:
        if type(value) is UnknownNumber:
            raise NeedsNumbers(WRITES_NUMBERS)
        return to_json(encoder, value)

    return default


def _known_again(seed: Callable) -> Callable:
    """From here on, what is drawn is what the real program draws."""

    def manual_seed(number):
        if (mode := shapes_only()) is not None:
            mode.has_drawn_unknown = False
        return seed(number)

    return manual_seed


def _of_memory(data_ptr: Callable) -> Callable:
    """Tensors of the same memory have the same address, and others another one."""

    def address(tensor: torch.Tensor) -> int:
        if not isinstance(tensor, FakeTensor):
            return data_ptr(tensor)
        return tensor.untyped_storage()._cdata + tensor.storage_offset() * tensor.itemsize

    return address


def _of_storage(data_ptr: Callable) -> Callable:
    def address(storage: torch.UntypedStorage) -> int:
        return storage._cdata if storage.device.type == "meta" else data_ptr(storage)

    return address


def _without_looking(enable: Callable) -> Callable:
    """Anomalies are numbers, and there are none to be found."""
    return lambda mode, check_nan=True: enable(mode, False)


def _copied(tensor: FakeTensor, memo: dict[int, Any]) -> FakeTensor:
    """torch's own looks for the memory of a tensor that has none."""
    if id(tensor) not in memo:
        if not tensor.is_leaf:
            raise RuntimeError("only tensors that are not computed from others (leaves) can be copied by deepcopy")
        copied = tensor.detach().clone()
        if isinstance(tensor, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, tensor.requires_grad)
        else:
            copied.requires_grad_(tensor.requires_grad)
            if tensor.grad is not None:
                copied.grad = tensor.grad.clone()
        memo[id(tensor)] = copied
    return memo[id(tensor)]


def _not_written(tensor: FakeTensor, protocol: Any) -> Any:
    raise NeedsNumbers(WRITES_NUMBERS)


def _by_item(to_text: Callable) -> Callable:
    def text(tensor: torch.Tensor, spec: str) -> str:
        if isinstance(tensor, FakeTensor) and tensor.dim() == 0:
            return format(tensor.item(), spec)
        return to_text(tensor, spec)

    return text


def _sharing_memory(make: Callable) -> Callable:
    """A tensor that shares an array's memory: what is known of it is what the array holds."""

    @functools.wraps(make)
    def tensor_of(data: Any, *args, **kwargs) -> torch.Tensor:
        mode = shapes_only()
        if mode is None or not isinstance(data, np.ndarray):
            return make(data, *args, **kwargs)
        with _disable_current_modes():
            tensor = make(data, *args, **kwargs)
        return mode.of_array(tensor)

    return tensor_of


def _gloo(group=None) -> str:
    """As real ranks on the CPU have it."""
    return "gloo"


def _barrier(group=None, timeout=None, wait_all_ranks=False) -> None:
    """torch's own asks by name which backend this is."""
    dist.barrier(group)


def _as_it_is(model=None, **_: Any) -> Any:
    """What torch.compile is given, or a decorator that gives it back: compiled or not, it makes the same calls."""
    return (lambda function: function) if model is None else model
