"""All exercises, by id, in the order of the course. Each has a folder, <unit>/<exercise>; the unit names their ORDER.

exercise: contract, cases, oracle, slips. technique: how it must be done, and how it can fail; without one it is arithmetic.
call: how a rank calls the function, where that is unusual. A student's copy has data in place of the first, see stored.
shared/ holds what cases and oracles, technique/ what the technique of several exercises have in common.
"""

import importlib
from dataclasses import replace
from pathlib import Path

from grader.exercises import stored
from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Exercise

HERE = Path(__file__).resolve().parent
UNITS = tuple(sorted(folder.parent.name for folder in HERE.glob("[0-9]*/__init__.py")))


def order_of(unit: str) -> tuple[str, ...]:
    """The names of the exercises of a unit, such as "03_zero1"."""
    return importlib.import_module(f"{__name__}.{unit}").ORDER


def load(unit: str, name: str) -> Exercise:
    """One exercise: what its folder says, and what follows from where it stands."""
    folder, package = HERE / unit / name, f"{__name__}.{unit}.{name}"
    if (folder / "technique.py").exists():
        technique = importlib.import_module(f"{package}.technique").TECHNIQUE
    else:
        technique = arithmetic()
    if (folder / "exercise.py").exists():
        exercise = importlib.import_module(f"{package}.exercise").EXERCISE
    else:
        exercise = stored.from_bytes((folder / stored.FILE).read_bytes())
    usual_way = "calling/with_group.py" if "group" in exercise.parameters else "calling/plain.py"
    way = f"exercises/{unit}/{name}/call.py" if (folder / "call.py").exists() else usual_way
    return replace(exercise, id=name, unit=unit, technique=technique, way=way)


EXERCISES: dict[str, Exercise] = {name: load(unit, name) for unit in UNITS for name in order_of(unit)}
