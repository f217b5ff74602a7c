"""Plausible wrong solutions, each with the hint that must answer it: changes of a reference, or functions of their own."""

import functools
import importlib
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType

import cloudpickle
import nbformat

from tests.notebooks import ROOT, functions_of
from utils.trace.source import remember


def mutant(hint: str) -> Callable[[Callable], Callable]:
    """Mark a wrong solution; `hint` is the id of the slip, symptom or demand that must come first."""

    def mark(fn: Callable) -> Callable:
        fn.hint = hint
        return fn

    return mark


@dataclass(frozen=True)
class Change:
    """The reference with some text replaced. of: the cell that is changed, if it is another exercise's.

    broken: what is changed is the broken program that students get.
    """

    hint: str
    replaced: tuple[tuple[str, str], ...]
    of: str = ""
    broken: bool = False


def change(hint: str, *old_and_new: str, of: str = "") -> Change:
    """change("sum for mean", "flat /= n", "pass"): each old text, which must be there, is followed by the new one."""
    return Change(hint, tuple(zip(old_and_new[::2], old_and_new[1::2], strict=True)), of)


def half_repaired(hint: str, *old_and_new: str) -> Change:
    """The same of the program with a bug that students get; with no texts, that program as it is."""
    return replace(change(hint, *old_and_new), broken=True)


@dataclass(frozen=True)
class Mutant:
    """A wrong solution with its hint; make() compiles it, and is called where it is tried: there are thousands."""

    hint: str
    name: str
    make: Callable[[], Callable]


def mutants_of(unit: str, exercise: str) -> list[Mutant]:
    """All mutants of one exercise, in order: those in CHANGES, then functions and classes."""
    module = importlib.import_module(f"{__name__}.{unit}.{exercise}")
    changed = [Mutant(changed.hint, re.sub(r"\W+", "_", changed.hint), partial(_apply, unit, exercise, changed))
               for changed in getattr(module, "CHANGES", ())]
    written = [fn for fn in vars(module).values() if hasattr(fn, "hint") and not isinstance(fn, Change)]
    return changed + [Mutant(fn.hint, fn.__name__, partial(_by_value, module, fn)) for fn in written]


def _by_value(module: ModuleType, fn: Callable) -> Callable:
    """A function or class of a module that ranks do not know."""
    cloudpickle.register_pickle_by_value(module)
    return fn


def _apply(unit: str, exercise: str, changed: Change) -> Callable:
    """Raises: ValueError if the reference has no such text."""
    source = reference_cell(unit, changed.of or exercise)
    if changed.broken:
        from grader.course.broken import broken_program  # not above: these mutants are tried in the students' archive, too

        source = broken_program(source)
    for old, new in changed.replaced:
        if old not in source:
            raise ValueError(f"{unit}/{exercise}, {changed.hint!r}: the reference has no {old!r}")
        source = source.replace(old, new)
    return with_source(unit, exercise, source, changed.of)


@functools.cache
def reference_cell(unit: str, exercise: str) -> str:
    """The source of an exercise's cell in the solution notebook."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    source, = (c.source for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == exercise)
    return source


def with_source(unit: str, exercise: str, source: str, of: str = "") -> Callable:
    """An exercise's function where its cell (or that of exercise `of`) has this source."""
    namespace = dict(functions_of("solutions", unit))
    exec(compile(source, remember(f"{exercise} {zlib.crc32(source.encode()):08x}", source), "exec"), namespace)
    if of:  # what is tried must find the changed function where it looks for names
        own = reference_cell(unit, exercise)
        exec(compile(own, remember(exercise, own), "exec"), namespace)
    return namespace[exercise]
