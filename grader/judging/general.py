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


def _other_type(found: Any, right: Any) -> bool:
    both = isinstance(found, torch.Tensor) and isinstance(right, torch.Tensor)
    return both and found.dtype != right.dtype and same(found.double(), right.double(), ROUNDED)


def _other_shape(found: Any, right: Any) -> bool:
    both = isinstance(found, torch.Tensor) and isinstance(right, torch.Tensor)
    return both and found.shape != right.shape and same(found.flatten(), right.flatten(), ROUNDED)


def _tensor_for_number(found: Any, right: Any) -> bool:
    return _number(right) and isinstance(found, torch.Tensor) and found.numel() == 1 and same(
        found.item(), float(right), ROUNDED)


def _list_for_tensor(found: Any, right: Any) -> bool:
    return isinstance(right, torch.Tensor) and isinstance(found, (list, tuple)) and bool(found) and same(
        torch.stack(list(found)), right, ROUNDED)


def _ended(look: Look, ending: str, *kinds: str) -> bool:
    return look.evidence.ending == ending and look.evidence.error_kind in kinds


_ABSENT = ("A rank waits in a call that another rank never makes: every member of a group must make every collective call, "
           "in the same order. Look for an if, a return or a loop bound that leaves a rank out.")

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
    raised("expected tensors, numbers, strings", "What is returned is no result: a function that was never called, or a "
           "work object, perhaps. Return the tensor or the number itself.", "no result"),
    raised("can be waited for once", "wait() is called twice on the work object of one isend or irecv; the second wait may "
           "never end. Wait once for each.", "waited twice"),
    Symptom("endless recursion", "The function calls itself without end: it needs a case in which it does not call itself, "
            "and each call must come nearer to that.", lambda look: _ended(look, RAISED, "RecursionError")),
    Symptom("unknown name", "A name is used that nobody has defined: look at the line in the message, and define the name "
            "before it (r = dist.get_rank(group), say) or mend its spelling.",
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
