"""Ways to be wrong that several exercises share, and the small questions that they are made of."""

from collections.abc import Callable
from typing import Any

from grader.evidence.evidence import DEADLOCKED, RAISED, RETURNED, TIMED_OUT
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom


def every_rank(test: Callable[[Look, int, Any, Any], bool]) -> Callable[[Look], bool]:
    """True for a returned case where test(look, rank, found, expected) holds on every rank that takes part."""
    return lambda look: look.evidence.ending == RETURNED and all(test(look, *pair) for pair in look.pairs())


def wrong_ranks(test: Callable[[Look, int, Any, Any], bool]) -> Callable[[Look], bool]:
    """True for a returned case where test(...) holds on every rank whose result is wrong (and there is one)."""

    def matches(look: Look) -> bool:
        wrong = [pair for pair in look.pairs() if not same(pair[1], pair[2])]
        return look.evidence.ending == RETURNED and bool(wrong) and all(test(look, *pair) for pair in wrong)

    return matches


def deadlocked(kind: str, id: str | None = None) -> Symptom:
    """The run stood still in a known pattern, or ranks disagreed; an empty kind matches any but another dtype.

    kind: (part of) what utils.deadlocks.verdicts calls it: "cycle of receives", "cycle of sends", "cycle of messages",
        "opposite order", "tags differ", "receive from the wrong rank", "send without receive", "receive without send",
        "rank returned early", "rank never calls", "member does not join", "dropped message"; of a disagreement "operation
        differs", "dtype differs", "root differs", "reduce_op differs", "size differs".
    """
    def matches(look: Look) -> bool:
        ended, found = look.evidence.ending == DEADLOCKED, look.evidence.error_kind
        return ended and kind in found and (bool(kind) or "dtype differs" not in found)

    return Symptom(id or kind, matches)


def raised(text: str, id: str) -> Symptom:
    """The run failed with an error that holds `text` (an empty one matches any)."""
    return Symptom(id, lambda look: look.evidence.ending == RAISED and text in look.evidence.said)


def too_few_gradients() -> Symptom:
    """An autograd function whose backward returns something else than one value for each argument of forward."""
    return raised("number of gradients", "too few gradients")


def group_ignored() -> Symptom:
    """In a case with groups: a call on another group, or a peer outside the group or the rank itself.

    Where the whole world fails too, something else comes first.
    """
    strays = ("not part of group", "itself: skip the exchange", "there is no rank", "out of bounds", "out of range")

    def matches(look: Look) -> bool:
        elsewhere = any(c.members != look.case.members(c.rank) for c in look.evidence.trace.calls)
        lost = look.evidence.ending == RAISED and any(text in look.evidence.said for text in strays)
        return look.case.groups is not None and (elsewhere or lost)

    return Symptom("group ignored", matches, refuted=lambda look: look.case.groups is None)


def unwaited() -> Symptom:
    """A wrong result, or none in time, and an asynchronous call that nobody waited for: the demand results_waited's lesson.

    A send or receive whose work object is dropped may never happen, and then its partner waits for ever.
    """

    def matches(look: Look) -> bool:
        evidence = look.evidence
        if evidence.ending == DEADLOCKED:
            return "dropped message" in evidence.error_kind
        return evidence.ending in (RETURNED, TIMED_OUT) and any(not c.waited for c in evidence.trace.calls)

    return Symptom("missing wait", matches)


def changed_under_way() -> Symptom:
    """A tensor that somebody wrote into between the start of an asynchronous call on it and the wait."""
    return Symptom("changed under way",
                   lambda look: look.evidence.ending == RETURNED and any(call.changed for call in look.evidence.trace.calls))


def forgotten_send() -> Symptom:
    """A message that was given up, because the Work of its isend was thrown away."""
    return deadlocked("dropped message", "wait forgotten")


def no_such_rank() -> Symptom:
    """A message to or from a rank that the group does not have."""
    return raised("there is no rank", "no such rank")
