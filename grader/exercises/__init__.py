"""All exercises, by id, in the order of the course. Each has a folder, <unit>/<exercise>; the unit names their ORDER.

exercise: contract, cases, oracle. technique: how it must be done, and how it can fail; without one it is arithmetic.
mistakes: wrong programs, mostly changes of the reference, by the ids of their hints.
call: how a rank calls the function, where that is unusual. hints.toml: what a student is told, by the id of the mistake or
demand; what is the same in many exercises stands in the hints.toml beside this file, and an exercise's own text comes before
it. A student's copy has data in place of the first, see stored.
shared/ holds what cases and oracles, technique/ what the technique of several exercises have in common.
"""

import functools
import importlib
import tomllib
from dataclasses import replace
from pathlib import Path

from grader.exercises import stored
from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.exercise import Exercise
from grader.judging.general import LAST_RESORTS

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
    usual = "calling/with_group.py" if "group" in exercise.parameters else "calling/plain.py"
    own = f"exercises/{unit}/{name}/call.py"
    caller = own if (folder / "call.py").exists() else technique.call or usual
    exercise = replace(exercise, id=name, unit=unit, technique=technique, caller=caller)
    if (folder / "mistakes.py").exists() and not exercise.faults:
        exercise = importlib.import_module(f"{__name__}.derived").with_mistakes(exercise)
    return replace(exercise, hints=_hints_for(exercise, folder))


def _hints_for(exercise: Exercise, folder: Path) -> dict[str, str]:
    """Texts by id: the exercise's own and the general ones.

    Raises: LookupError where an id has no text, or the exercise's file has a text for no id.
    """
    own, general = _texts(folder / "hints.toml"), _texts(HERE / "hints.toml")
    if missing := exercise.ids - own.keys() - general.keys():
        raise LookupError(f"{exercise.id}: no text in hints.toml for {', '.join(map(repr, sorted(missing)))}")
    if idle := own.keys() - exercise.ids - {resort.id for resort in LAST_RESORTS}:
        raise LookupError(f"{exercise.id}: its hints.toml has a text for {', '.join(map(repr, sorted(idle)))}, and nothing "
                          f"in its technique or slips has that id")
    return general | own


@functools.cache
def _texts(file: Path) -> dict[str, str]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file.relative_to(HERE)}: {error}. Each line is \"id\" = \"text\"") from None


EXERCISES: dict[str, Exercise] = {name: load(unit, name) for unit in UNITS for name in order_of(unit)}
