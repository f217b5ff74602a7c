"""Hello from every rank: rank and world size are asked for, not known."""

from collections.abc import Callable

from grader.exercises.shared.cases import sweep
from grader.judging.exercise import VALUES, Exercise, Slip


def _greeting(rank: int, n: int) -> str:
    return f"hello from rank {rank} of {n}"


def _says(id: str, hint: str, greeting: Callable[[int, int], str]) -> Slip:
    """Each rank returns greeting(rank, world size)."""
    return Slip(id, hint, lambda case, rank, right: greeting(rank, case.world_size))


EXERCISE = Exercise(
    title="Hello from every rank",
    parameters=(),
    make_cases=lambda draw, grading: sweep(grading, lambda n: [{} for _ in range(n)], groups=False),
    oracle=lambda case: [_greeting(rank, case.world_size) for rank in range(case.world_size)],
    points={VALUES: 2},
    slips=(
        Slip("nothing returned", "The function returns nothing: end it with return.", lambda case, rank, right: None),
        _says("swapped", "The two numbers are swapped: first the rank, then the world size.",
              lambda rank, n: _greeting(n, rank)),
        _says("counted from one", "Ranks count from 0: of n ranks, the first is 0 and the last is n−1.",
              lambda rank, n: _greeting(rank + 1, n)),
        _says("last rank for world size", "The second number is how many ranks there are, not the number of the last one.",
              lambda rank, n: _greeting(rank, n - 1)),
    ),
)
