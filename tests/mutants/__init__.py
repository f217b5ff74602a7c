"""Plausible wrong solutions. Each names the hint that must answer it."""

from __future__ import annotations

import importlib
from collections.abc import Callable


def mutant(hint: str) -> Callable[[Callable], Callable]:
    """Mark a wrong solution; `hint` is the id of the symptom or demand that must come first."""

    def mark(fn: Callable) -> Callable:
        fn.hint = hint
        return fn

    return mark


def mutants_of(unit: str, exercise: str) -> list[Callable]:
    """All mutants of one exercise, in order; `unit` is the package name, such as u01_collectives."""
    module = importlib.import_module(f"{__name__}.{unit}.{exercise}")
    return [fn for fn in vars(module).values() if hasattr(fn, "hint")]
