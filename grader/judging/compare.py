"""Where two results first differ, in words."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from grader.evidence.evidence import MISSING, Placeholder

# What one rounding to a type with few digits may change: where an exercise allows any tolerance, results of such a type get
# at least this one. bfloat16 keeps 8 binary digits; sums of a few roundings stay below 2 units of the last but one.
# float32: ring attention's reference, which sums in another order than one process, was seen to be 1.6e-6 off.
ROUNDING = {torch.bfloat16: 2.0 ** -6, torch.float16: 2.0 ** -9, torch.float32: 2.0 ** -18}


ANYTHING = Placeholder("anything")  # equal to whatever is found; for the parts of a result that a mistake leaves open


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
    return first_difference(found, expected, tolerance) == ""


def first_difference(found: Any, expected: Any, tolerance: float, path: str = "") -> str:
    """The first place where `found` is not `expected`, in words; empty if there is none."""
    if found is MISSING:
        return "returned nothing"
    if expected is ANYTHING or found is ANYTHING:
        return ""
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(found, expected, tolerance, path)
    if isinstance(expected, dict):
        if not isinstance(found, dict) or found.keys() != expected.keys():
            return f"{path or 'result'}: expected {_brief(sorted(map(str, expected)))}, found {_brief(found)}"
        parts = (first_difference(found[key], expected[key], tolerance, f"{path}[{key!r}]") for key in expected)
        return next((part for part in parts if part), "")
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            wanted = _brief(list(expected)) if len(repr(expected)) <= 60 else f"{len(expected)} parts"
            return f"{path or 'result'}: expected {wanted}, found {_brief(found)}"
        parts = (first_difference(f, e, tolerance, f"{path}[{i}]")
                 for i, (f, e) in enumerate(zip(found, expected, strict=True)))
        return next((part for part in parts if part), "")
    if isinstance(expected, float):
        close = isinstance(found, (int, float)) and math.isclose(found, expected, rel_tol=max(tolerance, 1e-9))
        return "" if close else f"{path}: {_apart(expected, found)}".lstrip(": ")
    same = type(found) is type(expected) and found == expected
    return "" if same else f"{path}: expected {_brief(expected)}, found {_brief(found)}".lstrip(": ")


def _tensor_difference(found: Any, expected: torch.Tensor, tolerance: float, path: str) -> str:
    if not isinstance(found, torch.Tensor):
        return f"{path}: expected a tensor {list(expected.shape)}, found {_brief(found)}".lstrip(": ")
    if found.shape != expected.shape:
        return f"{path}: expected shape {list(expected.shape)}, found {list(found.shape)}".lstrip(": ")
    if found.dtype != expected.dtype:
        return f"{path}: expected {expected.dtype}, found {found.dtype}".lstrip(": ").replace("torch.", "")
    tolerance = max(tolerance, ROUNDING.get(expected.dtype, 0.0)) if tolerance else 0.0
    a, b = found.double(), expected.double()
    wrong = ~((a - b).abs() <= tolerance * b.abs().clamp(min=1.0))  # written so that NaN is wrong
    if not wrong.any():
        return ""
    index = tuple(wrong.nonzero()[0].tolist())
    place = path + (str(list(index)) if index else "")
    return f"{place}: {_apart(b[index].item(), a[index].item())}".lstrip(": ")


def _apart(expected: float, found: Any) -> str:
    """Both numbers, with as many digits as it takes to see that they differ."""
    if isinstance(found, float) and f"{found:.6g}" == f"{expected:.6g}":
        return f"expected {expected:.15g}, found {found:.15g}"
    return f"expected {expected:.6g}, found {_brief(found)}"


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)}"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    most = 120 if isinstance(value, str) else 60  # a fault's sentence is whole
    return text if len(text) <= most else text[:most - 3] + "..."
