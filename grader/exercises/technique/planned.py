"""How exercises can fail that ask for a dictionary of numbers: which of them are wrong, in order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from grader.evidence.case import Case
from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Look, Symptom, Technique


def planned(*fallbacks: Symptom) -> Technique:
    """Of such an exercise; in a result whole numbers are as good as others."""
    other_names = Symptom("other names", lambda look: not isinstance(look.outputs[0], dict)
                          or look.outputs[0].keys() != look.right[0].keys())
    return replace(arithmetic(fallbacks=(other_names, *fallbacks)), reading=_in_floats)


def _in_floats(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    return {name: float(number) if type(number) is int else number for name, number in found.items()}


def wrong_parts(look: Look) -> list[str]:
    """In the order of the contract; none where the result is no such dictionary."""
    found, right = look.outputs[0], look.right[0]
    if not isinstance(found, dict) or found.keys() != right.keys():
        return []
    return [part for part in right if not look.same(found[part], right[part])]


def only(*parts: str) -> Callable[[Look], bool]:
    """Some of these are wrong, and nothing else."""
    return lambda look: set() < set(wrong_parts(look)) <= set(parts)


def first_wrong(*parts: str) -> Callable[[Look], bool]:
    """What is wrong first is one of these."""
    return lambda look: wrong_parts(look)[:1] != [] and wrong_parts(look)[0] in parts
