"""Verdicts on many answers to exercises, in no more cases than they need: one by one, or in a few processes at a time."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache

from grader.checks import trials_of, tried_on, verdict_on
from grader.exercises import EXERCISES
from grader.exercises.references import with_source
from grader.judging.exercise import Exercise, Trial
from grader.judging.judge import judge
from grader.judging.verdict import Verdict
from tests.warm_ranks import WarmRanks
from utils.ranks.place import Place

TIMEOUT_S = 10.0  # some answers never end
Answer = tuple[str, str, str]  # unit, exercise, the source of its cell


def verdicts(answers: Iterable[Answer], workers: int) -> Iterator[Verdict | str]:
    """In the order of the answers; words where a cell fails when it is run, so that there is no function to check."""
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_verdict, answers)


def passing(answers: Iterable[Answer], workers: int) -> Iterator[bool]:
    """Whether each answer has full points; one that fails is tried on no further case, so that most cost one."""
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_passes, answers)


def _verdict(answer: Answer) -> Verdict | str:
    unit, name, source = answer
    try:
        exercise = in_short_time(name)
        return verdict_on(exercise, with_source(unit, name, source), place=_warm_ranks().place_of(exercise))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _passes(answer: Answer) -> bool:
    unit, name, source = answer
    try:
        exercise = in_short_time(name)
        return earns_everything(exercise, with_source(unit, name, source), _warm_ranks().place_of(exercise))
    except Exception:
        return False


def earns_everything(exercise: Exercise, fn: Callable, place: Callable[[], Place]) -> bool:
    """Whether `fn` passes each public case; after one that it fails, no other is tried."""
    exercise, trials = _without_hints(exercise), trials_of(exercise.id)
    return all(judge(exercise, [trial], [evidence]).passed
               for trial, evidence in zip(trials, tried_on(exercise, fn, trials, place), strict=True))


def verdict_with(hint: str, exercise: Exercise, fn: Callable, place: Callable[[], Place]) -> Verdict:
    """The verdict on `fn`, which is wrong: that of one public case if `hint` comes first in it, else that of all."""
    telling = _telling(exercise, hint)
    order = [telling, *(trial for trial in trials_of(exercise.id) if trial is not telling)]
    evidences, tried = tried_on(exercise, fn, order, place), []
    for trial, evidence in zip(order, evidences, strict=False):
        tried.append(evidence)
        if trial is telling and (verdict := judge(exercise, [telling], tried)).hint_ids[:1] == (hint,):
            return verdict
    return judge(exercise, order, tried)


def _telling(exercise: Exercise, hint: str) -> Trial:
    """A public case in which several ranks work, three if there is one, and the slip of this name shows.

    Three, because two ranks are each other's neighbours on both sides, and many mistakes look alike.
    """
    slip = next((slip for slip in exercise.slips if slip.id == hint), None)
    trials = trials_of(exercise.id)
    shown = [trial for trial in trials if len(trial.working) > 1
             and (slip is None or exercise.wrong_results(trial, [slip])[0])] or trials
    return min(shown, key=lambda trial: (abs(trial.case.world_size - 3), -trial.case.world_size))


def in_short_time(name: str) -> Exercise:
    return replace(EXERCISES[name], timeout_s=TIMEOUT_S)


def _without_hints(exercise: Exercise) -> Exercise:
    """To look for one takes longer than to judge."""
    return replace(exercise, slips=(), technique=replace(exercise.technique, symptoms=(), fallbacks=()))


@cache
def _warm_ranks() -> WarmRanks:
    """Of this process; they end with it."""
    return WarmRanks()
