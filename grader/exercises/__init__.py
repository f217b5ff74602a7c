"""All exercises, by id, in the order of the course. Each has a folder, <unit>/<exercise>; the unit names their ORDER.

exercise: contract, cases, oracle, demands, ways to be wrong. call: how a rank calls the function, where that is unusual.
shared/ holds what several exercises have in common.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

from grader.judging.exercise import Exercise

UNITS = tuple(sorted(folder.parent.name for folder in Path(__file__).parent.glob("[0-9]*/__init__.py")))


def order_of(unit: str) -> tuple[str, ...]:
    """The names of a unit's exercises, such as "03_zero1"."""
    return importlib.import_module(f"{__name__}.{unit}").ORDER


def load(unit: str, name: str) -> Exercise:
    """One exercise: what its folder says, and what follows from where it stands."""
    exercise = importlib.import_module(f"{__name__}.{unit}.{name}.exercise").EXERCISE
    own_way = f"exercises/{unit}/{name}/call.py"
    usual_way = "calling/with_group.py" if "group" in exercise.parameters else "calling/plain.py"
    way = own_way if (Path(__file__).parents[1] / own_way).exists() else usual_way
    return replace(exercise, id=name, unit=unit, way=way)


EXERCISES: dict[str, Exercise] = {name: load(unit, name) for unit in UNITS for name in order_of(unit)}
