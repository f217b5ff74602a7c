"""The reader's own record of the course, in one small file beside the units' folders: checks, guesses, time.

It is no mark. Kept only where a unit's notebook runs. A file that is no record of this course is set aside, never
overwritten; where nothing can be written, nothing is kept.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from numbers import Real
from pathlib import Path
from typing import Any

from utils.trace.source import running_shell

NAME, COURSE = "progress.json", "Many Ranks, One Loss"
PAUSE_S = 45 * 60.0  # between two notes: longer, and the reader was elsewhere
Data = dict[str, Any]

_CHECK = {"points": Real, "of": Real, "tries": int}
_GUESS = {"text": str, "guess": (Real, str), "verdict": str}
_TIME = {"spent_s": Real, "last_s": Real}
_SHAPE = {"checks": {str: _CHECK}, "guesses": {str: {str: _GUESS}}, "times": {str: _TIME}}


def read(path: Path) -> tuple[Data, str]:
    """(the record, why there is none although there is a file); an empty record where there is no file.

    Raises: OSError where there is one that may not or cannot be read.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _empty(), ""
    except (ValueError, RecursionError) as error:
        return _empty(), f"{path} cannot be read ({type(error).__name__})"
    if not isinstance(data, dict) or data.pop("course", None) != COURSE or not _fits(data, _SHAPE):
        return _empty(), f"{path} is no record of this course"
    return data, ""


def note_check(exercise: str, points: float, of: float) -> None:
    """Note what a check of the unit that is open has given."""
    def change(data: Data) -> None:
        tries = data["checks"].get(exercise, {}).get("tries", 0)
        data["checks"][exercise] = {"points": points, "of": of, "tries": tries + 1}

    _note(change)


def note_guess(unit: str, name: str, text: str, guess: Any, verdict: str) -> None:
    """Note a guess, and how it compares with the answer (words; "" for not yet, then what was known of the same counts)."""
    kept = guess if isinstance(guess, str) else float(guess)

    def change(data: Data) -> None:
        guesses = data["guesses"].setdefault(unit, {})
        earlier = guesses.get(name, {})
        same = (earlier.get("text"), earlier.get("guess")) == (text, kept)
        guesses[name] = {"text": text, "guess": kept, "verdict": verdict or (earlier["verdict"] if same else "")}

    _note(change)


def note_start() -> None:
    """Note that somebody has begun to work on the unit that is open, or goes on."""
    _note(lambda data: None)


def guess_of(unit: str, name: str) -> Any:
    """A guess that was noted earlier, or None."""
    place = path_here()
    with contextlib.suppress(OSError):
        data, _ = read(place) if place else (_empty(), "")
        return data["guesses"].get(unit, {}).get(name, {}).get("guess")


def path_here() -> Path | None:
    """Where the record of the notebook that runs here lies: beside its unit's folder. None anywhere else."""
    folder = Path.cwd()
    return folder.parent / NAME if running_shell() is not None and (folder / f"{folder.name}.ipynb").is_file() else None


def _note(change: Callable[[Data], None]) -> None:
    """Change the record, whole or not at all."""
    path = path_here()
    if path is None:
        return
    with contextlib.suppress(OSError), _alone(path.parent):
        data, fault = read(path)
        if fault:
            os.replace(path, _free_name(path))
        change(data)
        _count_time(data["times"], Path.cwd().name, time.time())
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps({"course": COURSE} | data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(part, path)


def _count_time(times: dict[str, Data], unit: str, now_s: float) -> None:
    """Add what has passed since the last note, of whatever unit, unless that was a pause."""
    passed_s = now_s - max((time["last_s"] for time in times.values()), default=now_s)
    own = times.setdefault(unit, {"spent_s": 0.0, "last_s": now_s})
    own["spent_s"] += passed_s if 0 < passed_s <= PAUSE_S else 0.0
    own["last_s"] = now_s


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One notebook at a time, of those that share the folder."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _free_name(path: Path) -> Path:
    names = (path.with_suffix(f".set-aside-{number}.json") for number in range(1, 1000))
    return next(name for name in names if not name.exists())


def _empty() -> Data:
    return {part: {} for part in _SHAPE}


def _fits(value: Any, shape: Any) -> bool:
    """Whether data has this form: {str: form} for any names, {"name": form} for these, a type or several for one value."""
    if not isinstance(shape, dict):
        return isinstance(value, shape) and not isinstance(value, bool)
    if not isinstance(value, dict):
        return False
    if set(shape) == {str}:
        return all(_fits(part, shape[str]) for part in value.values())
    return shape.keys() <= value.keys() and all(_fits(value[name], shape[name]) for name in shape)  # more, if it is later
