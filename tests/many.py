"""Verdicts on many answers to exercises: each in one of a few processes, on warm ranks of its own."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache

from grader.checks import tried_on, verdict_on
from grader.exercises import EXERCISES
from grader.judging.exercise import Exercise
from grader.judging.judge import judge
from grader.judging.verdict import Verdict
from tests.mutants import with_source
from tests.warm_ranks import WarmRanks

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
        return verdict_on(_in_short(name), with_source(unit, name, source), place=_warm_ranks().place_of(EXERCISES[name]))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _passes(answer: Answer) -> bool:
    unit, name, source = answer
    try:
        exercise, fn = _without_hints(_in_short(name)), with_source(unit, name, source)
        trials, evidences = tried_on(exercise, fn, place=_warm_ranks().place_of(EXERCISES[name]))
        return all(judge(exercise, [trial], [evidence]).passed
                   for trial, evidence in zip(trials, evidences, strict=True))
    except Exception:
        return False


def _in_short(name: str) -> Exercise:
    return replace(EXERCISES[name], timeout_s=TIMEOUT_S)


def _without_hints(exercise: Exercise) -> Exercise:
    """To look for one takes longer than to judge."""
    return replace(exercise, slips=(), technique=replace(exercise.technique, symptoms=(), fallbacks=()))


@cache
def _warm_ranks() -> WarmRanks:
    """Of this process; they end with it."""
    return WarmRanks()
