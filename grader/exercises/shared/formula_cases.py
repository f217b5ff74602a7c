"""Cases without communication: each is one call on one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.judging.compare import same
from grader.judging.exercise import Case, Look, Symptom
from grader.judging.symptoms import wrong_ranks


def single(name: str, **inputs: Any) -> Case:
    """One rank, called once."""
    return Case(name, (inputs,))


def formula(id: str, wrong: Callable[[dict[str, Any]], Any], hint: str, tolerance: float = 1e-6) -> Symptom:
    """The result is that of a known wrong formula, wrong(inputs), which is another number than the right one."""

    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        return same(found, wrong(look.case.inputs[rank]), tolerance)

    return Symptom(id, hint, wrong_ranks(test))
