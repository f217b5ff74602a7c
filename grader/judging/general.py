"""Mistakes that any function can make: what explains a failure where nothing of the exercise's own does."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.evidence.evidence import MISSING, RAISED, RETURNED, TIMED_OUT
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import deadlocked, raised
from utils.ranks.place import CRASHED

ROUNDED = 1e-5


def _wrong_parts(found: Any, right: Any) -> list[tuple[Any, Any]]:
    """(found, right) of each part that differs: of the parts of lists and dictionaries that fit, else of the whole."""
    if same(found, right):
        return []
    if isinstance(right, dict) and isinstance(found, dict) and found.keys() == right.keys():
        return [pair for key in right for pair in _wrong_parts(found[key], right[key])]
    if isinstance(right, (list, tuple)) and isinstance(found, (list, tuple)) and len(found) == len(right):
        return [pair for parts in zip(found, right, strict=True) for pair in _wrong_parts(*parts)]
    return [(found, right)]


def _each_wrong_part(test: Callable[[Any, Any], bool]) -> Callable[[Look], bool]:
    """True for a returned case where test(found, right) holds of every part that is wrong."""

    def matches(look: Look) -> bool:
        wrong = [pair for _, found, right in look.pairs() for pair in _wrong_parts(found, right)]
        return look.evidence.ending == RETURNED and bool(wrong) and all(test(*pair) for pair in wrong)

    return matches


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _tensors(*values: Any) -> bool:
    return all(isinstance(value, torch.Tensor) for value in values)


def _other_type(found: Any, right: Any) -> bool:
    return _tensors(found, right) and found.dtype != right.dtype and same(found.double(), right.double(), ROUNDED)


def _other_shape(found: Any, right: Any) -> bool:
    return _tensors(found, right) and found.shape != right.shape and same(found.flatten(), right.flatten(), ROUNDED)


def _other_names(found: Any, right: Any) -> bool:
    return isinstance(found, dict) and isinstance(right, dict) and found.keys() != right.keys()


def _elsewhere_in_another_shape(found: Any, right: Any) -> bool:
    fits = _tensors(found, right) and found.shape != right.shape and found.numel() == right.numel()
    return fits and not same(found.flatten().double(), right.flatten().double(), ROUNDED)


def _longer(found: Any, right: Any) -> bool:
    return _tensors(found, right) and found.numel() > right.numel()


def _shorter(found: Any, right: Any) -> bool:
    return _longer(right, found)


def _of_others(look: Look) -> bool:
    """Some ranks have another rank's result, all others their own; there must be a difference."""
    fits = look.evidence.ending == RETURNED
    return fits and all(any(same(found, look.right[other]) for other in look.working) for _, found, _ in look.pairs())


def _only_zeros(found: Any, right: Any) -> bool:
    return isinstance(found, torch.Tensor) and found.numel() > 0 and not found.any()


def _ratio(found: Any, right: Any) -> float:
    """By how much all numbers of a part differ; 0 where it is not one factor, or cannot be told."""
    if not isinstance(found, (int, float, torch.Tensor)) or not isinstance(right, (int, float, torch.Tensor)):
        return 0.0
    a, b = (torch.as_tensor(value).double().flatten() for value in (found, right))
    if a.shape != b.shape or not b.any() or not bool(torch.isfinite(a).all()):
        return 0.0
    ratio = float(a[b.abs().argmax()] / b[b.abs().argmax()])
    if b.numel() == 1 and not _is_simple(ratio):  # any number is some multiple of another
        return 0.0
    return round(ratio, 6) if same(a, b * ratio, ROUNDED) else 0.0


def _is_simple(ratio: float) -> bool:
    """A whole number, or one over a whole number."""
    larger = max(abs(ratio), 1 / abs(ratio)) if ratio else 0.5
    return abs(larger - round(larger)) < 1e-9 * larger


def _constant_factor(test: Callable[[float], bool]) -> Callable[[Look], bool]:
    """True for a returned case whose wrong parts are all the same number of times the right ones, and test(number)."""

    def matches(look: Look) -> bool:
        ratios = {_ratio(*pair) for _, found, right in look.pairs() for pair in _wrong_parts(found, right)}
        return look.evidence.ending == RETURNED and len(ratios) == 1 and test(ratios.pop())

    return matches


def _reordered(found: Any, right: Any) -> bool:
    alike = _tensors(found, right) and found.shape == right.shape and found.dtype == right.dtype
    distinct = alike and right.unique().numel() > 2
    return distinct and same(*(x.double().flatten().sort().values for x in (found, right)), ROUNDED)


def _tensor_for_number(found: Any, right: Any) -> bool:
    return _number(right) and isinstance(found, torch.Tensor) and found.numel() == 1 and same(
        found.item(), float(right), ROUNDED)


def _list_for_tensor(found: Any, right: Any) -> bool:
    return isinstance(right, torch.Tensor) and isinstance(found, (list, tuple)) and bool(found) and same(
        torch.stack(list(found)), right, ROUNDED)


def _no_tensor(found: Any, right: Any) -> bool:
    return isinstance(right, torch.Tensor) and isinstance(found, (bool, dict))


def _ranks_disagree(look: Look) -> bool:
    """Every rank's right result is the same, and the results are several."""
    if look.evidence.ending != RETURNED or len(look.working) < 2:
        return False
    (_, first, right), *others = look.pairs()
    return all(same(right, other) for _, _, other in others) and not all(same(first, found) for _, found, _ in others)


def _ended(look: Look, ending: str, *kinds: str) -> bool:
    return look.evidence.ending == ending and look.evidence.error_kind in kinds


IN_GROUPS_ONLY = Symptom("only in groups", lambda look: look.case.groups is not None, alone=True)


def _crashed_unwaited(look: Look) -> bool:
    """A rank crashed while a transfer went on that nobody had waited for: its tensor's memory may have been given back."""
    crashed = look.evidence.ending == RAISED and CRASHED in look.evidence.said
    return crashed and any(call.op != "send" and not call.waited for call in look.evidence.trace.calls)


UNKNOWN_NAME = Symptom("unknown name", lambda look: _ended(look, RAISED, "NameError", "UnboundLocalError"))

LAST_RESORTS: Sequence[Symptom] = (
    Symptom("missing wait", _crashed_unwaited),
    Symptom("nothing returned", _each_wrong_part(lambda found, right: found is None or found is MISSING)),
    Symptom("another type", _each_wrong_part(_other_type)),
    Symptom("another shape", _each_wrong_part(_other_shape)),
    Symptom("tensor returned", _each_wrong_part(_tensor_for_number)),
    Symptom("list returned", _each_wrong_part(_list_for_tensor)),
    Symptom("not a tensor", _each_wrong_part(_no_tensor)),
    Symptom("result elsewhere", _each_wrong_part(lambda found, right: right is None)),
    Symptom("other names", _each_wrong_part(_other_names)),
    Symptom("wrong shape", _each_wrong_part(_elsewhere_in_another_shape)),
    Symptom("too long", _each_wrong_part(_longer)),
    Symptom("too short", _each_wrong_part(_shorter)),
    Symptom("another rank's result", _of_others),
    Symptom("all zeros", _each_wrong_part(_only_zeros)),
    Symptom("wrong sign", _each_wrong_part(lambda found, right: _ratio(found, right) == -1)),
    Symptom("too large by a factor", _constant_factor(lambda ratio: ratio > 1)),
    Symptom("too small by a factor", _constant_factor(lambda ratio: 0 < ratio < 1)),
    Symptom("another order", _each_wrong_part(_reordered)),
    Symptom("ranks disagree", _ranks_disagree),
    raised("tensors with different dtypes", "buffer of another dtype"),
    raised("expected tensors, numbers, strings", "no result"),
    raised("can be waited for once", "waited twice"),
    raised("values to unpack", "unpacked otherwise"),
    raised("'tuple' object does not support item assignment", "tuple changed"),
    Symptom("attribute missing", lambda look: _ended(look, RAISED, "AttributeError")),
    Symptom("key or index missing", lambda look: _ended(look, RAISED, "KeyError", "IndexError")),
    Symptom("own assert failed", lambda look: _ended(look, RAISED, "AssertionError")),
    Symptom("endless recursion", lambda look: _ended(look, RAISED, "RecursionError")),
    UNKNOWN_NAME,
    Symptom("never ends", lambda look: look.evidence.ending == TIMED_OUT),
    deadlocked("dropped message"),
    deadlocked("cycle of receives"),
    deadlocked("cycle of sends"),
    deadlocked("cycle of messages"),
    deadlocked("receive from the wrong rank"),
    deadlocked("tags differ"),
    deadlocked("send without receive"),
    deadlocked("receive without send"),
    deadlocked("rank returned early"),
    deadlocked("rank never calls", "rank returned early"),
    deadlocked("member does not join", "rank returned early"),
    deadlocked("opposite order"),
    deadlocked("dtype differs"),
    deadlocked("size differs"),
    deadlocked("differs"),
)
