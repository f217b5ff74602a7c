"""ParallelDropout: equal masks where the ranks hold the same numbers, different ones where each holds its part."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.judging.exercise import Case, Draw, Exercise

STEPS = 3
# and what may lie between the ranks' own seeds: round numbers, primes, powers of two
OTHER_SEEDS = (*range(150), 500, 1000, 1009, 1234, 5000, 7919, 10_000, 10_007, 65_536, 65_537, 100_000, 100_003, 1_000_000,
               1_000_003, 2**20)
RARE = 0.001  # a p that the 256 numbers which bfloat16 has between 0 and 1, in equal steps, do not show


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, split: bool, p: float = 0.3, dtype: str = "float32") -> tuple[dict[str, Any], ...]:
        shape = [draw.integer(3, 9), 11, 29] if p > RARE else [30, 11, 29]
        seeds = list(OTHER_SEEDS) if p > RARE else []  # where next to nothing is dropped, small masks are all alike
        return ({"p": p, "seed": draw.integer(2, 999), "seeds": seeds, "split": split, "steps": STEPS,
                 "shape": shape, "dtype": dtype},) * n

    sizes = [(1, True, RARE, "bfloat16"), (2, False, 0.3, "bfloat16"), (4, True, 0.1, "float32")]
    if grading:
        sizes += [(3, False, 0.2, "float32"), (3, True, 0.7, "float64")]
    cases = [Case(f"{ranks(n)}, {'split' if split else 'replicated'}, p = {p}, {dtype}", inputs(n, split, p, dtype))
             for n, split, p, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, n == 3, dtype="float64"), "split and replicated")]


def _facts(case: Case, rank: int) -> dict[str, Any]:
    true = ("global random state as it was", "input left as it was", "same masks with the same seed",
            "what is kept is scaled", "gradient through the same mask", "eval changes nothing",
            "eval draws nothing")
    return dict.fromkeys(true, True) | {"dtype": f"torch.{case.inputs[rank]['dtype']}"}


EXERCISE = Exercise(
    title="Dropout, replicated and split",
    parameters=("p", "seed", "split", "group"),
    make_cases=_cases,
    oracle=each_rank(_facts),
)
