"""check.<exercise>(fn) inside the sandbox: nothing is checked here, the function is handed over to the grader."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grader.calling.checked import only_argument, pack_function
from grader.evidence.evidence import NOT_WRITTEN
from grader.sandbox import FUNCTIONS


class HandOver:
    """Stands where the student's notebook has its checks."""

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args: hand_over(name, args)


def hand_over(exercise: str, args: tuple) -> None:
    """Leave the function, or the reason why it cannot be taken, for the grader."""
    folder = Path(os.environ[FUNCTIONS])
    exercises = json.loads((folder / "exercises.json").read_text())
    if exercise not in exercises:
        return
    try:
        fn = only_argument(exercise, args)
        blob = pack_function(exercise, exercises[exercise], fn, exercises)
        if _only_raises(fn):
            raise TypeError(NOT_WRITTEN.format(exercise))
        (folder / f"{exercise}.pkl").write_bytes(blob)
    except TypeError as error:
        (folder / f"{exercise}.txt").write_text(str(error))


def _only_raises(fn: Any) -> bool:
    """Is this an untouched skeleton? Then no rank need be started to find out."""
    def bare():
        raise NotImplementedError

    def with_text():
        raise NotImplementedError("text")

    code = getattr(fn, "__code__", None)
    return any(code and (code.co_code, code.co_names) == (skeleton.__code__.co_code, skeleton.__code__.co_names)
               for skeleton in (bare, with_text))


def progress(*_) -> None:
    """In the sandbox nobody reads on."""


check = HandOver()
