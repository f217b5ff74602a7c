"""All exercises, by id, in the order of the course. Each module beside this one holds one, as EXERCISE."""

from __future__ import annotations

import importlib
import pkgutil

from grader.exercise import Exercise

UNITS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


def _load() -> dict[str, Exercise]:
    found = {}
    for unit in UNITS:
        package = importlib.import_module(f"{__name__}.{unit}")
        for name in package.ORDER:
            exercise = importlib.import_module(f"{package.__name__}.{name}").EXERCISE
            found[exercise.id] = exercise
    return found


EXERCISES: dict[str, Exercise] = _load()
