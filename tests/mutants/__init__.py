"""Plausible wrong solutions, each with the hint that must answer it: changes of a reference, or functions of their own."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import nbformat

from tests.notebooks import ROOT, functions_of, remember


def mutant(hint: str) -> Callable[[Callable], Callable]:
    """Mark a wrong solution; `hint` is the id of the slip, symptom or demand that must come first."""

    def mark(fn: Callable) -> Callable:
        fn.hint = hint
        return fn

    return mark


@dataclass(frozen=True)
class Change:
    """The reference with some text replaced. of: the cell that is changed, if it is another exercise's."""

    hint: str
    replaced: tuple[tuple[str, str], ...]
    of: str = ""


def change(hint: str, *old_and_new: str, of: str = "") -> Change:
    """change("sum for mean", "flat /= n", "pass"): each old text, which must be there, is followed by the new one."""
    return Change(hint, tuple(zip(old_and_new[::2], old_and_new[1::2], strict=True)), of)


def mutants_of(unit: str, exercise: str) -> list[Callable]:
    """All mutants of one exercise, in order: those in CHANGES, then functions and classes."""
    module = importlib.import_module(f"{__name__}.{unit}.{exercise}")
    changed = [_apply(unit, exercise, one) for one in getattr(module, "CHANGES", ())]
    return changed + [fn for fn in vars(module).values() if hasattr(fn, "hint") and not isinstance(fn, Change)]


def _apply(unit: str, exercise: str, one: Change) -> Callable:
    """Raises: ValueError if the reference has no such text."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    source, = (c.source for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == (one.of or exercise))
    for old, new in one.replaced:
        if old not in source:
            raise ValueError(f"{unit}/{exercise}, {one.hint!r}: the reference has no {old!r}")
        source = source.replace(old, new)
    namespace = dict(functions_of("solutions", unit))
    name = f"{exercise} with {one.hint}"
    exec(compile(source, remember(name, source), "exec"), namespace)
    if one.of:  # what is tried must find the changed function where it looks for names
        _again(unit, exercise, namespace)
    fn = namespace[exercise]
    fn.hint = one.hint
    fn.case_name = re.sub(r"\W+", "_", one.hint)
    return fn


def _again(unit: str, exercise: str, namespace: dict) -> None:
    """Define the exercise's own reference in this namespace."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    source, = (c.source for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == exercise)
    exec(compile(source, remember(exercise, source), "exec"), namespace)
