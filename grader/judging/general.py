"""Mistakes that any function can make: what explains a failure where nothing of the exercise's own does."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.evidence.evidence import MISSING, RAISED, RETURNED, TIMED_OUT
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom
from grader.judging.symptoms import deadlocked, raised

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


_ABSENT = ("A rank waits in a call that another rank never makes: every member of a group must make every collective call, "
           "in the same order. Look for an if, a return or a loop bound that leaves a rank out.")

IN_GROUPS_ONLY = Symptom(
    "only in groups", "Right for the whole world, wrong in a group: some rank, size or root is the world's. Ask "
    "dist.get_rank(group) and dist.get_world_size(group); group_dst= and group_src= take ranks of the group, dst= and src= "
    "the world's.", lambda look: look.case.groups is not None, alone=True)

LAST_RESORTS: Sequence[Symptom] = (
    Symptom("nothing returned", "A rank returns None where a result is due: end the function with return and the result, on "
            "every way through its ifs.", _each_wrong_part(lambda found, right: found is None or found is MISSING)),
    Symptom("another type", "The numbers are right, their dtype is not: torch.zeros and torch.empty make float32 unless "
            "they are told otherwise, and .float() or .double() changes it. Keep the input's (empty_like, dtype=x.dtype).",
            _each_wrong_part(_other_type)),
    Symptom("another shape", "The numbers are right, but in another shape: a slice x[i:i+1] keeps the axis that x[i] drops, "
            "and torch.cat makes no new one, as torch.stack does. Compare with the shape in the contract.",
            _each_wrong_part(_other_shape)),
    Symptom("tensor returned", "The result is a tensor where a plain number is asked: return tensor.item().",
            _each_wrong_part(_tensor_for_number)),
    Symptom("list returned", "The result is a list of tensors where one tensor is asked: put them together (torch.stack).",
            _each_wrong_part(_list_for_tensor)),
    Symptom("not a tensor", "A result is no tensor where one is due (the table says what it is): a work object and its "
            "wait() hold none. Return the tensor that the call works on.", _each_wrong_part(_no_tensor)),
    Symptom("result elsewhere", "A result is there where None is due: the contract says which ranks return something (and "
            "which inputs have a gradient).", _each_wrong_part(lambda found, right: right is None)),
    Symptom("other names", "A dictionary has other names than it should: the table says which are expected and which "
            "were found.", _each_wrong_part(_other_names)),
    Symptom("wrong shape", "A result has as many elements as it should, but another shape, and they stand elsewhere: look "
            "at the dim along which things are cut and joined.", _each_wrong_part(_elsewhere_in_another_shape)),
    Symptom("too long", "A result has more elements than it should (the table says how many): look at what is rounded up, "
            "and whether padding is added where none is needed.", _each_wrong_part(_longer)),
    Symptom("too short", "A result has fewer elements than it should (the table says how many): look at what is rounded "
            "down, and whether a last part, or the padding, is lost.", _each_wrong_part(_shorter)),
    Symptom("another rank's result", "Ranks return what others should: look at every index that is made from the rank, and "
            "ask for the rank in the group, dist.get_rank(group).", _of_others),
    Symptom("all zeros", "A result holds nothing but zeros: what was received or computed never got into it.",
            _each_wrong_part(_only_zeros)),
    Symptom("wrong sign", "Every number has the wrong sign.",
            _each_wrong_part(lambda found, right: _ratio(found, right) == -1)),
    Symptom("too large by a factor", "The numbers are right but for a factor: they are a constant number of times too "
            "large. A division is missing, or something is counted more than once.",
            _constant_factor(lambda ratio: ratio > 1)),
    Symptom("too small by a factor", "The numbers are right but for a factor: they are a constant number of times too "
            "small. Something is divided twice, or by too much, or not all is counted.",
            _constant_factor(lambda ratio: 0 < ratio < 1)),
    Symptom("another order", "The numbers are all there, but in another order: compare which of them stands where in the "
            "table.", _each_wrong_part(_reordered)),
    Symptom("ranks disagree", "All ranks of a group should return the same, and do not: after the exchange each goes on "
            "with something of its own (its own count, say): that must be exchanged too.", _ranks_disagree),
    raised("tensors with different dtypes", "A call is given tensors of different dtypes: torch.empty and torch.zeros make "
           "float32, so make buffers like the data (empty_like, new_empty).", "buffer of another dtype"),
    raised("expected tensors, numbers, strings", "What is returned is no result: a function that was never called, or a "
           "work object, perhaps. Return the tensor or the number itself.", "no result"),
    raised("can be waited for once", "wait() is called twice on the work object of one isend or irecv; the second wait may "
           "never end. Wait once for each.", "waited twice"),
    Symptom("endless recursion", "The function calls itself without end: it needs a case in which it does not call itself, "
            "and each call must come nearer to that.", lambda look: _ended(look, RAISED, "RecursionError")),
    Symptom("unknown name", "A name is used that nobody has defined: look at the line in the message, and define the name "
            "before it (r = dist.get_rank(group), say) or fix its spelling. What a cell for trying something out defines is "
            "not there when marks are given.",
            lambda look: _ended(look, RAISED, "NameError", "UnboundLocalError")),
    Symptom("never ends", "Time ran out while a rank was still busy, or waited for one that was: look at the line shown for "
            "the rank that does not wait, for a loop whose end never comes.",
            lambda look: look.evidence.ending == TIMED_OUT),
    deadlocked("dropped message", "An isend or irecv whose work object is thrown away may never happen: keep what it "
               "returns and call work.wait()."),
    deadlocked("cycle of receives", "Ranks wait for each other in a circle, each in a receive, so nobody sends: start sends "
               "with isend, receive, and only then wait for the sends."),
    deadlocked("cycle of sends", "Ranks wait for each other in a circle, each in a send, which ends only when it is "
               "received: start sends with isend, receive, and only then wait for the sends."),
    deadlocked("cycle of messages", "Ranks wait for each other in a circle of sends and receives: write down who sends to "
               "whom in which order, and start sends with isend, so that they hold nobody up."),
    deadlocked("receive from the wrong rank", "A message goes to a rank that waits for one from somebody else: whoever "
               "sends to rank i, rank i must receive from."),
    deadlocked("tags differ", "A message is sent with one tag or group and awaited with another: use the same on both "
               "sides."),
    deadlocked("send without receive", "A rank sends a message that nobody receives: for each send the other rank must make "
               "one recv. Compare who sends and who receives, and how often."),
    deadlocked("receive without send", "A rank waits for a message that nobody sends: for each recv the other rank must "
               "make one send. Compare who sends and who receives, and how often."),
    deadlocked("rank returned early", _ABSENT),
    deadlocked("rank never calls", _ABSENT, "rank returned early"),
    deadlocked("member does not join", _ABSENT, "rank returned early"),
    deadlocked("opposite order", "Ranks make the same calls in different orders, so they wait for each other: choose one "
               "order for all."),
    deadlocked("dtype differs", "The two ends of a message, or the members of a collective, give tensors of different "
               "dtypes: make buffers like the data (empty_like, dtype=x.dtype)."),
    deadlocked("size differs", "The two ends of a message, or the members of a collective, give tensors of different sizes: "
               "all must agree on how many elements travel."),
    deadlocked("differs", "Ranks call different things at the same point: all members of a group must make the same calls "
               "with the same arguments, in the same order."),
)
