"""Hello from every rank: rank and world size are asked for, not known."""

from grader.exercises.shared.cases import sweep
from grader.judging.exercise import VALUES, Exercise


def _greeting(rank: int, n: int) -> str:
    return f"hello from rank {rank} of {n}"


EXERCISE = Exercise(
    title="Hello from every rank",
    parameters=(),
    make_cases=lambda draw, grading: sweep(grading, lambda n: [{} for _ in range(n)], groups=False),
    oracle=lambda case: [_greeting(rank, case.world_size) for rank in range(case.world_size)],
    points={VALUES: 2},
)
