"""Which tensors keep their numbers in a simulation, and what stands for those that nobody knows.

Kept: small tensors of integers, bytes and booleans that a program makes itself (ranks in a grid, sizes, an object's bytes),
what is computed from those alone, single numbers such as torch.tensor(3.0), and a sampler's order.
"""

import dis
import functools
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from utils.simulation.refusals import NEEDS_A_NUMBER, NEEDS_SENDER, NeedsNumbers

MOST_BYTES = 1 << 20  # of a tensor that keeps its numbers
MOST_FRACTIONS = 4096  # elements of floats that were computed from known numbers
MOST_AT_RANDOM = 64  # elements that are drawn; an order of any size
MOST_DRAWN_ALONG = 1 << 16  # elements that are drawn and not told, so that the generator is where the real one is


class UnknownNumber:
    """What .item() gives of a tensor without numbers: it may be printed and computed with, and not be looked at.

    was_given: whether this rank has been given one.
    """

    was_given = False
    reason = NEEDS_A_NUMBER
    __class__ = property(lambda self: float)  # for isinstance: loggers keep what is a number

    def __reduce__(self) -> tuple:
        return type(self), ()  # in what a rank returns

    def _same(self, *_: Any) -> "UnknownNumber":
        return self

    def _refuse(self, *_: Any) -> NoReturn:
        raise NeedsNumbers(self.reason)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = _same
    __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __round__ = _same
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __hash__ = _refuse
    is_integer = as_integer_ratio = hex = conjugate = _refuse
    __int__ = __index__ = __complex__ = __floor__ = __ceil__ = __trunc__ = _refuse

    def __float__(self) -> float:
        """For "%.3f" % loss, where only a float can be printed; float(loss) could be compared with another unnoticed."""
        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti] == dis.opmap.get("BINARY_OP", dis.opmap.get("BINARY_MODULO")):
            return math.nan
        raise NeedsNumbers(NEEDS_A_NUMBER)

    def __format__(self, spec: str) -> str:
        return "?"

    def __repr__(self) -> str:
        return "?"


class UnknownRank(UnknownNumber):
    """What a receive from anybody returns: it may be ignored or returned, and not be looked at."""

    reason = NEEDS_SENDER
    __class__ = property(lambda self: int)
    __float__ = __str__ = __format__ = __add__ = __radd__ = __sub__ = __rsub__ = UnknownNumber._refuse
    __mul__ = __rmul__ = __mod__ = __rmod__ = UnknownNumber._refuse

    def __repr__(self) -> str:
        return "a rank that a simulation does not know"


def of_unknown(function: Callable) -> Callable:
    """A function of plain numbers that takes unknown ones, too: math.exp gives another, math.isnan refuses."""
    @functools.wraps(function)
    def with_unknown(*args):
        unknown = next((arg for arg in args if isinstance(arg, UnknownNumber)), None)
        if unknown is None:
            return function(*args)
        if not isinstance(function(*(1.0 if arg is unknown else arg for arg in args)), float):
            raise NeedsNumbers(NEEDS_A_NUMBER)
        return unknown

    return with_unknown


# ── tensors that keep theirs ──


_aten = torch.ops.aten
# What they make does not depend on the numbers of a tensor that they are given.
MAKERS = frozenset({
    _aten.arange, _aten.zeros, _aten.ones, _aten.full, _aten.empty, _aten.eye, _aten.scalar_tensor, _aten.tril_indices,
    _aten.triu_indices, _aten.zeros_like, _aten.ones_like, _aten.full_like, _aten.empty_like, _aten.new_zeros,
    _aten.new_ones, _aten.new_full, _aten.new_empty,
})
DRAWN = frozenset({_aten.randint, _aten.randperm, _aten.random_})


def is_kept(tensor: torch.Tensor) -> bool:
    """Whether a tensor that a program makes keeps its numbers: small ones of whole numbers, and single numbers."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return tensor.numel() <= 1
    return tensor.nbytes <= MOST_BYTES


def stays_known(tensor: torch.Tensor) -> bool:
    """Whether what was computed from known numbers keeps its own."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return tensor.numel() <= MOST_FRACTIONS
    return tensor.nbytes <= MOST_BYTES


def made_for_real(func: Any, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """What a maker makes, with numbers. Call it where no mode is active.

    A tensor among `args` gives its shape and dtype; a large one its dtype alone, of which something small is made.
    """
    def plain(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.zeros(value.shape if value.nbytes <= MOST_BYTES else (), dtype=value.dtype)

    return func(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})
