"""check.<exercise>(fn): run the public cases on real ranks and show the verdict, or hand the function to the grader."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grader.collect import collect
from grader.exercise import Exercise
from grader.exercises import EXERCISES
from grader.judge import judge
from grader.verdict import Verdict
from utils.errors import BadType, ShowsItself
from utils.payload import pack

PUBLIC_SEED = 0
PAYLOAD_FOLDER = "GRADER_PAYLOAD_FOLDER"  # set by the autograder: functions are handed over, not checked here


class NoSuchExercise(ShowsItself, AttributeError):
    """check.<name> for a name that no exercise has."""


class CheckFailed(ShowsItself, AssertionError):
    """A check that was not passed in full. `verdict` holds the details."""

    def __init__(self, verdict: Verdict, shown: bool):
        super().__init__(_one_line(verdict) if shown else str(verdict))
        self.verdict = verdict


class Check:
    """One method an exercise. Returns the Verdict of a passed check.  Raises: CheckFailed for any other."""

    def __getattr__(self, name: str) -> Callable[[Callable], Verdict | None]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in EXERCISES:
            close = difflib.get_close_matches(name, EXERCISES, 1)
            hint = f"; did you mean check.{close[0]}?" if close else f"; there are: {', '.join(EXERCISES)}"
            raise NoSuchExercise(f"there is no exercise called {name!r}{hint}")
        return lambda *args: _check(EXERCISES[name], *args)

    def __dir__(self) -> list[str]:
        return list(EXERCISES)

    def __repr__(self) -> str:
        return "check.<exercise>(your_function), with <exercise> one of: " + ", ".join(EXERCISES)


def verdict_on(exercise: Exercise, fn: Callable, seed: int = PUBLIC_SEED, grading: bool = False) -> Verdict:
    """Collect evidence of `fn` and judge it.  Raises: TypeError if `fn` cannot be the exercise's function."""
    cases = exercise.cases(seed, grading)
    evidences = collect(pack_function(exercise, fn), exercise.adapter, cases, exercise.timeout_s)
    return judge(exercise, cases, evidences)


def pack_function(exercise: Exercise, fn: Any) -> bytes:
    """The function as bytes.  Raises: TypeError in the student's words."""
    call = f"check.{exercise.id}({exercise.id})"
    if not callable(fn):
        raise BadType(f"{call} takes your function itself; got {type(fn).__name__}: {fn!r:.80}")
    name = getattr(fn, "__name__", "")
    if name != exercise.id and name in EXERCISES:
        raise BadType(f"{call} is the check of {exercise.id!r}, but it was given the function {name!r}")
    _expect_parameters(exercise, fn)
    return pack(fn, f"the function {name}", fn)


def _expect_parameters(exercise: Exercise, fn: Callable) -> None:
    try:
        inspect.signature(fn).bind(*exercise.parameters)
    except TypeError:
        raise BadType(f"{exercise.id} must take ({', '.join(exercise.parameters)}), as in the skeleton; "
                        f"yours takes {inspect.signature(fn)}") from None
    except ValueError:
        return  # a builtin without a signature


def _check(exercise: Exercise, *args: Any) -> Verdict | None:
    if len(args) != 1:
        raise BadType(f"check.{exercise.id} takes one thing, your function: check.{exercise.id}({exercise.id}); "
                        f"got {len(args)} arguments")
    if folder := os.environ.get(PAYLOAD_FOLDER):
        return hand_over(exercise, args[0], Path(folder))
    verdict = verdict_on(exercise, args[0])
    if verdict.passed:
        return verdict
    raise CheckFailed(verdict, shown=_display(verdict))


def hand_over(exercise: Exercise, fn: Any, folder: Path) -> None:
    """Leave the function, or the reason why it cannot be taken, for the grader."""
    try:
        (folder / f"{exercise.id}.pkl").write_bytes(pack_function(exercise, fn))
    except TypeError as error:
        (folder / f"{exercise.id}.txt").write_text(str(error))


def _display(verdict: Verdict) -> bool:
    """Show the table in a notebook; False where there is none to show it in."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return False
    if get_ipython() is None:
        return False
    display(verdict)
    return True


def _one_line(verdict: Verdict) -> str:
    return f"{verdict.exercise} has {verdict.points:g} of {verdict.max_points:g} points: see the table above"


check = Check()
