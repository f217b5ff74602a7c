"""All exercises, by id, in the order of the course. Each module beside this one holds one, as EXERCISE."""

from __future__ import annotations

import importlib

from grader.exercise import Exercise

UNITS = ("u00_start_here", "u01_collectives", "u02_data_parallel", "u03_zero1", "u04_zero2", "u05_zero3")


def _load() -> dict[str, Exercise]:
    found = {}
    for unit in UNITS:
        package = importlib.import_module(f"{__name__}.{unit}")
        for name in package.ORDER:
            exercise = importlib.import_module(f"{package.__name__}.{name}").EXERCISE
            found[exercise.id] = exercise
    return found


EXERCISES: dict[str, Exercise] = _load()
