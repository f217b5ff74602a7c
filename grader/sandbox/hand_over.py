"""check.<exercise>(fn) inside the sandbox: nothing is checked here, the function is handed over to the grader."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any

from grader.evidence.evidence import NOT_WRITTEN
from grader.sandbox import FUNCTIONS
from utils.deadlocks.errors import BadType, ShowsItself
from utils.ranks.payload import pack


class CheckFailed(ShowsItself, AssertionError):
    """Never raised here: the checks of the student's own notebook raise it."""


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


def only_argument(exercise: str, args: tuple) -> Any:
    """What a check was given.  Raises: TypeError unless it is one thing."""
    if len(args) != 1:
        raise BadType(f"check.{exercise} takes one thing, your function: check.{exercise}({exercise}); "
                      f"got {len(args)} arguments")
    return args[0]


def pack_function(exercise: str, parameters: Sequence[str], fn: Any, exercises: Container[str]) -> bytes:
    """The function as bytes. exercises: all names of exercises.  Raises: TypeError in the student's words."""
    if not callable(fn):
        raise BadType(f"check.{exercise}({exercise}) takes your function itself; got {type(fn).__name__}: {fn!r:.80}")
    name = getattr(fn, "__name__", "")
    if name != exercise and name in exercises:
        raise BadType(f"check.{exercise}({exercise}) is the check of {exercise!r}, but it was given the function {name!r}")
    try:
        inspect.signature(fn).bind(*parameters)
    except TypeError:
        raise BadType(f"{exercise} must take ({', '.join(parameters)}), as in the skeleton; "
                      f"yours takes {inspect.signature(fn)}") from None
    except ValueError:
        pass  # a builtin without a signature
    return pack(fn, f"the function {name}", fn)


def _only_raises(fn: Any) -> bool:
    """Is this an untouched skeleton? Then no rank need be started to find out."""
    def bare():
        raise NotImplementedError

    def with_text():
        raise NotImplementedError("text")

    code = getattr(fn, "__code__", None)
    return any(code and (code.co_code, code.co_names) == (one.__code__.co_code, one.__code__.co_names)
               for one in (bare, with_text))


check = HandOver()
