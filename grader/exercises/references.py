"""The references, and the mistakes that are programs: a reference with a change, or written out. Reads solutions/.

Each exercise's mistakes.py has CHANGES, functions marked with @mistake, and EQUIVALENT: changes that leave it right.
"""

import functools
import importlib
import inspect
import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

from grader.broken import broken_program
from grader.judging.exercise import Mistake
from utils.trace.source import remember

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Change:
    """The reference with some text replaced. of: the cell that is changed, if it is another exercise's.

    broken: what is changed is the broken program that students get.
    """

    id: str
    replaced: tuple[tuple[str, str], ...]
    of: str = ""
    broken: bool = False


def change(id: str, *old_and_new: str, of: str = "") -> Change:
    """change("sum for mean", "flat /= n", "pass"): each old text, which must be there, is followed by the new one.

    id: of the hint that a student should read who makes this mistake.
    """
    return Change(id, tuple(zip(old_and_new[::2], old_and_new[1::2], strict=True)), of)


def half_repaired(id: str, *old_and_new: str) -> Change:
    """The same of the program with a bug that students get; with no texts, that program as it is."""
    return replace(change(id, *old_and_new), broken=True)


def mistake(id: str) -> Callable[[Callable], Callable]:
    """Mark a wrong solution that is written out; `id` is that of the hint that should come first."""

    def mark(fn: Callable) -> Callable:
        fn.id = id
        return fn

    return mark


def mistakes_of(unit: str, exercise: str) -> list[Mistake]:
    """All of one exercise, in order: those in CHANGES, then functions and classes."""
    module = importlib.import_module(f"grader.exercises.{unit}.{exercise}.mistakes")
    count: Counter[str] = Counter()
    changed = []
    for one in getattr(module, "CHANGES", ()):
        count[one.id] += 1
        name = re.sub(r"\W+", "_", one.id) + f"_{count[one.id]}" * (count[one.id] > 1)
        changed.append(Mistake(one.id, name, repr(one), partial(changed_reference, unit, exercise, one)))
    written = [fn for fn in vars(module).values() if callable(fn) and hasattr(fn, "id")]
    text = inspect.getsource(module) if written else ""
    return changed + [Mistake(fn.id, fn.__name__, f"{fn.__name__} of {text}", partial(_by_value, module, fn))
                      for fn in written]


def _by_value(module: ModuleType, fn: Callable) -> Callable:
    """A function or class of a module that ranks do not know."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)
    return fn


def changed_reference(unit: str, exercise: str, changed: Change) -> Callable:
    """Raises: ValueError if the reference has no such text."""
    source = reference_cell(unit, changed.of or exercise)
    if changed.broken:
        source = broken_program(source)
    for old, new in changed.replaced:
        if old not in source:
            raise ValueError(f"{unit}/{exercise}, {changed.id!r}: the reference has no {old!r}")
        source = source.replace(old, new)
    return with_source(unit, exercise, source, changed.of)


@functools.cache
def reference_cell(unit: str, exercise: str) -> str:
    """The source of an exercise's cell in the solution notebook.  Raises: ValueError if it has none."""
    for cell in _cells("solutions", unit):
        if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise:
            return cell.source
    raise ValueError(f"solutions/{unit} has no cell of {exercise!r}")


def with_source(unit: str, exercise: str, source: str, of: str = "") -> Callable:
    """An exercise's function where its cell (or that of exercise `of`) has this source."""
    namespace = dict(functions_of("solutions", unit))
    exec(compile(source, remember(f"{exercise} {zlib.crc32(source.encode()):08x}", source), "exec"), namespace)
    if of:  # what is tried must find the changed function where it looks for names
        own = reference_cell(unit, exercise)
        exec(compile(own, remember(exercise, own), "exec"), namespace)
    return namespace[exercise]


@functools.cache
def functions_of(folder: str, unit: str) -> dict[str, Callable]:
    """Run the notebook's cells except checks, watches and magics; what they define, by name.

    folder: "solutions" or "notebooks".
    """
    namespace: dict = {"__name__": f"{folder}_{unit}"}
    for cell in _cells(folder, unit):
        is_check = cell.metadata.get("nbgrader", {}).get("grade", False)
        if cell.cell_type != "code" or is_check or "watch" in cell.metadata.get("tags", []):
            continue
        source = "\n".join(line for line in cell.source.splitlines() if not line.startswith(("%", "!")))
        exec(compile(source, remember(f"{unit}.ipynb:{cell.id}", source), "exec"), namespace)
    return namespace


@functools.cache
def _cells(folder: str, unit: str) -> list:
    import nbformat

    return nbformat.read(ROOT / folder / unit / f"{unit}.ipynb", as_version=4).cells
