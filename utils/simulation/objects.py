"""Objects as torch sends them between ranks, where numbers in them are unknown: they take as many bytes as known ones."""

import pickle
import struct
from collections.abc import Callable

import torch
from torch.utils._python_dispatch import _disable_current_modes

from utils.simulation.numbers import UnknownNumber

_AS_BYTES = struct.pack(">Q", 0x7FF8_0000_0000_CA5E)  # no number, with a mark that no computation leaves
_AS_FLOAT, = struct.unpack(">d", _AS_BYTES)


class Pickler(pickle._Pickler):
    """An unknown number is written as a float is."""

    dispatch = pickle._Pickler.dispatch | {UnknownNumber: lambda pickler, _: pickler.save_float(_AS_FLOAT)}


class Unpickler(pickle._Unpickler):
    """The other way round."""

    def load_binfloat(self) -> None:
        data = self.read(8)
        self.append(UnknownNumber() if data == _AS_BYTES else struct.unpack(">d", data)[0])

    dispatch = pickle._Unpickler.dispatch | {pickle.BINFLOAT[0]: load_binfloat}


def with_numbers(to_tensors: Callable) -> Callable:
    """An object's bytes and their count are known."""

    def object_to_tensors(*args):
        with _disable_current_modes():
            tensors = to_tensors(*args)
        return tuple(torch.ops.aten.lift_fresh(tensor) for tensor in tensors)

    return object_to_tensors
