"""Hello from every rank: rank and world size are asked for, not known."""

from __future__ import annotations

import re
from collections.abc import Callable

from grader.evidence.evidence import RETURNED
from grader.exercises.shared.start_inputs import sweep
from grader.judging.exercise import VALUES, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import every_rank, raised


def _greeting(rank: int, n: int) -> str:
    return f"hello from rank {rank} of {n}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


_returned_none = every_rank(lambda look, rank, found, expected: found is None)


def _says(numbers: Callable[[int, int], tuple[int, int]]) -> Callable[[Look], bool]:
    """True where every rank's sentence holds numbers(rank, world size), and these are wrong."""

    def test(look: Look, rank: int, found: str, expected: str) -> bool:
        n = look.case.world_size
        return _numbers(found) == numbers(rank, n) != (rank, n)

    return every_rank(test)


def _all_the_same(look: Look) -> bool:
    return look.evidence.ending == RETURNED and look.case.world_size > 1 and len(set(look.outputs)) == 1


def _fixed_world_size(look: Look) -> bool:
    """The rank is right, the second number is one constant that is neither n nor n−1."""
    n = look.case.world_size
    shown = [_numbers(found) for found in look.outputs]
    counts = {count for _, count in shown}
    return [rank for rank, _ in shown] == list(range(n)) and len(counts) == 1 and not counts & {n, n - 1}


EXERCISE = Exercise(
    title="Hello from every rank",
    parameters=(),
    make_cases=lambda draw, grading: sweep(grading, lambda n: [{} for _ in range(n)], groups=False),
    oracle=lambda case: [_greeting(rank, case.world_size) for rank in range(case.world_size)],
    points={VALUES: 2},
    technique=Technique(
        symptoms=(
        Symptom("printed, not returned", "The sentence is printed but not returned: a print is for people; only what a "
                "rank returns comes back to the notebook.",
                lambda look: _returned_none(look) and any(look.evidence.prints.values())),
        Symptom("nothing returned", "The function returns nothing: end it with return.", _returned_none),
        raised("NameError", "Only a %%ranks cell has rank and world_size ready. Inside a function, ask: "
               "dist.get_rank() and dist.get_world_size().", "rank not defined"),
        Symptom("not called", "The text holds a function, not a number: call it, with parentheses, dist.get_rank().",
                every_rank(lambda look, rank, found, _: "<function" in found)),
        Symptom("swapped", "The two numbers are swapped: first the rank, then the world size.",
                _says(lambda rank, n: (n, rank))),
        Symptom("counted from one", "Ranks count from 0: of n ranks, the first is 0 and the last is n−1.",
                _says(lambda rank, n: (rank + 1, n))),
        Symptom("last rank for world size",
                "The second number is how many ranks there are, not the number of the last one.",
                _says(lambda rank, n: (rank, n - 1))),
        Symptom("world size written in", "The world size is a fixed number in your code. The same program runs on "
                "2 ranks and on 2000: ask dist.get_world_size().", _fixed_world_size),
        Symptom("all the same", "All ranks say the same. They run one program, so what tells them apart must be asked "
                "for: dist.get_rank().", _all_the_same),
        Symptom("other words", "The numbers are right, the words are not: compare them letter by letter with the "
                "contract.",
                every_rank(lambda look, rank, found, _: _numbers(found) == (rank, look.case.world_size))),
    ),
    ),
)
