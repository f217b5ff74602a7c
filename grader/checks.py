"""check.<exercise>(fn): run the public cases on real ranks and show the verdict."""

import difflib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grader.calling.checked import CheckFailed, only_argument, pack_function
from grader.calling.collect import Candidate, collect
from grader.calling.handing_out import given
from grader.evidence.evidence import Evidence
from grader.exercises import EXERCISES
from grader.hunt import draw_program
from grader.judging.exercise import PUBLIC_SEED, Exercise, Trial
from grader.judging.judge import judge
from grader.judging.verdict import Verdict
from grader.not_written import go_on_without
from grader.standing import progress
from utils.deadlocks.errors import ShowsItself
from utils.notebook import record
from utils.ranks.place import Place
from utils.ranks.server import warm_up
from utils.trace.source import running_shell

__all__ = ["check", "draw_program", "progress"]  # what a notebook imports


class NoSuchExercise(ShowsItself, AttributeError):
    """check.<name> for a name that no exercise has."""


class Check:
    """One method an exercise. Returns the Verdict of a passed check.  Raises: CheckFailed for any other."""

    def __getattr__(self, name: str) -> Callable[[Callable], Verdict]:
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


def verdict_on(exercise: Exercise, fn: Callable, seed: int = PUBLIC_SEED, grading: bool = False,
               place: Callable[[], Place] = Place) -> Verdict:
    """Collect evidence of `fn` and judge it.  Raises: TypeError if `fn` cannot be the exercise's function."""
    trials = trials_of(exercise.id, seed, grading)
    return judge(exercise, trials, list(tried_on(exercise, fn, trials, place)))


def tried_on(exercise: Exercise, fn: Callable, trials: Sequence[Trial],
             place: Callable[[], Place] = Place) -> Iterator[Evidence]:
    """Evidence of one trial after the other, as it is asked for.  Raises: as verdict_on."""
    task = pack_function(exercise.id, exercise.parameters, fn, EXERCISES)
    candidate = Candidate(task, exercise.timeout_s, exercise.trains, exercise.measured, exercise.caller, exercise.forbidden)
    return collect(candidate, (given(exercise.caller, trial.case) for trial in trials), place)


@functools.lru_cache(maxsize=4)
def trials_of(name: str, seed: int = PUBLIC_SEED, grading: bool = False) -> tuple[Trial, ...]:
    """Drawn once, for a function that is tried again and again."""
    return EXERCISES[name].trials(seed, grading)


def _check(exercise: Exercise, *args: Any) -> Verdict:
    verdict = verdict_on(exercise, only_argument(exercise.id, args))
    record.note_check(exercise.id, verdict.points, verdict.max_points)
    if verdict.passed:
        return verdict
    raise CheckFailed(verdict.problem or (_one_line(verdict) if _display(verdict) else str(verdict)), verdict)


def _display(verdict: Verdict) -> bool:
    """Show the table in a notebook; False where there is none to show it in."""
    if running_shell() is None:
        return False
    from IPython.display import display

    display(verdict)
    return True


def _one_line(verdict: Verdict) -> str:
    return f"{verdict.exercise} has {verdict.points:g} of {verdict.max_points:g} points: see the table above"


check = Check()
if (shell := running_shell()) is not None:
    go_on_without(shell)
    warm_up()  # who reads a notebook's first lines need not wait for the ranks that come later
