"""ParallelDropout: equal masks where the ranks hold the same numbers, different ones where each holds its part."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.exercise import Case, Draw, Exercise, Slip

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


def _false(id: str, fact: str, hint: str, shows: Callable[[Case], bool] = lambda case: True) -> Slip:
    """The first fact that does not hold."""
    return first_wrong_slip(id, hint, fact, lambda case, rank, right: False, shows)


EXERCISE = Exercise(
    title="Dropout, replicated and split",
    parameters=("p", "seed", "split", "group"),
    make_cases=_cases,
    oracle=each_rank(_facts),
    slips=(
        _false("global state disturbed", "global random state as it was",
               "torch's global random state is another one afterwards, so whatever draws next on this rank changes: use a "
               "torch.Generator of your own."),
        _false("not reproducible", "same masks with the same seed",
               "Two modules with one seed draw different masks: draw from your own generator only, which starts from the "
               "seed alone."),
        _false("input changed", "input left as it was",
               "x itself was changed: others may still need it, so make a new tensor."),
        _false("not scaled", "what is kept is scaled",
               "What is kept must be divided by 1 − p, so that the mean stays.", lambda case: case.inputs[0]["p"] > RARE),
        _false("another mask in backward", "gradient through the same mask",
               "The gradient goes through another mask than the elements went through: keep the mask of the forward pass "
               "(autograd does, if you multiply by it)."),
        _false("drops in eval", "eval changes nothing", "In eval() nothing is dropped: ask self.training."),
        _false("draws in eval", "eval draws nothing", "An evaluation in between changes the masks that follow: in eval() "
               "draw no numbers either (ask self.training first), and afterwards go on where you were."),
    ),
)
