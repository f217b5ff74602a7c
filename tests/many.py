"""Verdicts on many answers to exercises: each in one of a few processes, on warm ranks of its own."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial

from grader.checks import verdict_on
from grader.exercises import EXERCISES
from grader.judging.verdict import Verdict
from tests.mutants import with_source
from tests.warm_ranks import WarmPlace

TIMEOUT_S = 10.0  # some answers never end
Answer = tuple[str, str, str]  # unit, exercise, the source of its cell


def verdicts(answers: Iterable[Answer], workers: int) -> Iterator[Verdict | str]:
    """In the order of the answers; words where a cell fails when it is run, so that there is no function to check."""
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_verdict, answers)


def _verdict(answer: Answer) -> Verdict | str:
    unit, exercise, source = answer
    try:
        fn = with_source(unit, exercise, source)
        exercise = replace(EXERCISES[exercise], timeout_s=TIMEOUT_S)
        return verdict_on(exercise, fn, place=partial(WarmPlace, _idle_ranks()))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@cache
def _idle_ranks() -> list:
    """Of this process; they end with it."""
    return []
