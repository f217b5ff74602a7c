"""Where two results first differ, in words."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from grader.evidence.evidence import MISSING, Placeholder

# What one rounding to a type with few digits may change: where an exercise allows any tolerance, results of such a type get
# at least this one. bfloat16 keeps 8 binary digits; sums of a few roundings stay below 2 units of the last but one.
# float32: ring attention's reference, which sums in another order than one process, was seen to be 1.6e-6 off.
ROUNDING = {torch.bfloat16: 2.0 ** -6, torch.float16: 2.0 ** -9, torch.float32: 2.0 ** -18}




# A result may be larger than the right ones, as whoever returns a whole tensor for a shard knows; what is larger than this
# is not looked into.
TIMES_LARGER, AND_MORE = 64, 1 << 16
TOO_LARGE = Placeholder("far more than any result could be")


def bounded(found: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Each rank's result, or TOO_LARGE in its place: by its shapes, before any of its numbers is looked at.

    right: of all ranks; the largest counts, for what one should have may be on another.
    """
    most = TIMES_LARGER * max(map(_size, right), default=0) + AND_MORE
    return [result if _size(result, most) <= most else TOO_LARGE for result in found]


def _size(value: Any, most: float = math.inf) -> int:
    """Elements, rows, letters and parts: what it could cost to look at it; counted no further than to more than `most`."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        part = waiting.pop()
        size += 1
        if isinstance(part, torch.Tensor):
            size += part.numel() + sum(part.shape)
        elif isinstance(part, str):
            size += len(part)
        elif isinstance(part, (dict, list, tuple)):
            waiting += [*part, *part.values()] if isinstance(part, dict) else part
    return size


def same(found: Any, expected: Any, tolerance: float = 1e-6) -> bool:
    """Whether two results are equal (to rounding)."""
    return _difference(found, expected, tolerance, ()) is None


def same_at_first(found: Any, expected: Any) -> bool:
    """Whether two results have the same first digits, whole numbers too: what passed through a type with fewer."""
    return same(_in_floats(found), _in_floats(expected), tolerance=1e-3)


def _in_floats(value: Any) -> Any:
    return tree_map(lambda leaf: leaf.double() if isinstance(leaf, torch.Tensor) else leaf, value)


def first_difference(found: Any, expected: Any, tolerance: float) -> str:
    """The first place where `found` is not `expected`, in words; empty if there is none."""
    words = _difference(found, expected, tolerance, ())
    return "" if words is None else words().lstrip(": ")


Words = Callable[[], str]  # said only where somebody wants to hear: to print a number takes longer than to compare


def _difference(found: Any, expected: Any, tolerance: float, path: tuple) -> Words | None:
    """path: keys and indices on the way here."""
    if found is MISSING:
        return lambda: "returned nothing"
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(found, expected, tolerance, path)
    if isinstance(expected, dict):
        if not isinstance(found, dict) or found.keys() != expected.keys():
            return lambda: _at(path or "result", f"expected {_brief(sorted(map(str, expected)))}, found {_brief(found)}")
        return _first_of(((found[key], expected[key], key) for key in expected), tolerance, path)
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return lambda: _at(path or "result", f"expected {_list_in_words(expected)}, found {_brief(found)}")
        return _first_of(zip(found, expected, range(len(expected)), strict=True), tolerance, path)
    if isinstance(expected, float):
        close = isinstance(found, (int, float)) and math.isclose(found, expected, rel_tol=max(tolerance, 1e-9))
        return None if close else lambda: _at(path, _apart(expected, found))
    same = type(found) is type(expected) and found == expected
    return None if same else lambda: _at(path, f"expected {_brief(expected)}, found {_brief(found)}")


def _tensor_difference(found: Any, expected: torch.Tensor, tolerance: float, path: tuple) -> Words | None:
    if not isinstance(found, torch.Tensor):
        return lambda: _at(path, f"expected a tensor {list(expected.shape)}, found {_brief(found)}")
    if found.shape != expected.shape:
        return lambda: _at(path, f"expected shape {list(expected.shape)}, found {list(found.shape)}")
    if found.dtype != expected.dtype:
        return lambda: _at(path, f"expected {expected.dtype}, found {found.dtype}").replace("torch.", "")
    wrong = _beyond(found, expected, tolerance) if expected.is_floating_point() else found != expected
    if not wrong.any():
        return None

    def words() -> str:
        index = tuple(wrong.nonzero()[0].tolist())
        place = f"{_place(path)}{list(index) if index else ''}"
        return _at(place, _apart(expected[index].item(), found[index].item()))

    return words


def _beyond(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Which numbers are further apart than the tolerance allows. Whole numbers have none: nothing rounds them."""
    tolerance = max(tolerance, ROUNDING.get(expected.dtype, 0.0)) if tolerance else 0.0
    a, b = found.double(), expected.double()
    near = (a - b).abs() <= tolerance * b.abs().clamp(min=1.0)  # NaN is not
    return ~torch.where(b.isinf(), a == b, near | a.isnan() & b.isnan())  # a mistake, too, may make NaN


def _first_of(parts: Iterable[tuple[Any, Any, Any]], tolerance: float, path: tuple) -> Words | None:
    """Of (found, expected, key or index)."""
    differences = (_difference(found, expected, tolerance, (*path, key)) for found, expected, key in parts)
    return next((words for words in differences if words is not None), None)


def _place(path: tuple) -> str:
    return "".join(f"[{part!r}]" for part in path)


def _at(path: tuple | str, words: str) -> str:
    """path: keys and indices, or where it is in words."""
    return f"{path if isinstance(path, str) else _place(path)}: {words}"


def _list_in_words(expected: Sequence) -> str:
    return _brief(list(expected)) if len(repr(expected)) <= 60 else f"{len(expected)} parts"


def _apart(expected: float, found: Any) -> str:
    """Both numbers, with as many digits as it takes to see that they differ."""
    if isinstance(found, float) and f"{found:.6g}" == f"{expected:.6g}":
        return f"expected {expected:.15g}, found {found:.15g}"
    return f"expected {_brief(expected)}, found {_brief(found)}"


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)}"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    most = 120 if isinstance(value, str) else 60  # a fault's sentence is whole
    return text if len(text) <= most else text[:most - 3] + "..."
