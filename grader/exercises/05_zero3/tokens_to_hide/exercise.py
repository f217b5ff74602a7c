"""The fewest tokens that hide a layer's all-gather: a time line of a forward pass, with more and more tokens."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

LAYERS, PARAMETERS, FLOP = 4, 1000, 2  # FLOP: for each parameter and token
NVLINK, INFINIBAND = 1 / 450e9, 1 / 50e9


def _waits(inputs: dict[str, Any], tokens: int) -> bool:
    """Whether some layer but the first has to wait for its gather, which starts when the layer before it does."""
    n = inputs["n_ranks"]
    gather_s = PARAMETERS * inputs["element_bytes"] * Fraction(n - 1, n) * Fraction(inputs["beta_s_per_byte"])
    compute_s = FLOP * PARAMETERS * tokens / Fraction(inputs["flops_per_s"])
    there_s, free_s, waited = gather_s, gather_s, False  # when this layer is gathered, and when the device is free
    for number in range(LAYERS):
        start_s = max(there_s, free_s)
        waited |= number > 0 and start_s > free_s
        there_s, free_s = max(there_s, start_s) + gather_s, start_s + compute_s
    return waited


def _fewest(inputs: dict[str, Any]) -> int:
    return first_enough(lambda tokens: not _waits(inputs, tokens)) if _waits(inputs, 0) else 0


def _tokens(inputs: dict[str, Any]) -> float:
    """Not rounded."""
    return inputs["flops_per_s"] * inputs["beta_s_per_byte"] * inputs["element_bytes"] * (1 - 1 / inputs["n_ranks"]) / FLOP


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(n: int, beta_s_per_byte: float, element_bytes: int) -> Case:
        """A device so fast that the result is far from a whole number, where floats are rounded."""
        while True:
            inputs = {"flops_per_s": draw.integer(300, 900) * 10**12 + draw.integer(1, 999) * 10**9,
                      "beta_s_per_byte": beta_s_per_byte, "n_ranks": n, "element_bytes": element_bytes}
            if n == 1 or 0.1 < _tokens(inputs) % 1 < 0.9:
                break
        return single(f"{ranks(n)}, {1e-9 / beta_s_per_byte:.0f} GB/s, {element_bytes} bytes an element", **inputs)

    return [of(8, NVLINK, 2), of(512, INFINIBAND, 2), of(2, NVLINK, 4), of(draw.integer(3, 7), INFINIBAND, 1),
            of(1, NVLINK, 2)]


EXERCISE = Exercise(
    title="The fewest tokens that hide a gather",
    forbidden=FORMULAS,
    parameters=("flops_per_s", "beta_s_per_byte", "n_ranks", "element_bytes"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: _fewest(case.inputs[rank])),
    tolerance=1e-9,  # far less than a token
    points={VALUES: 2},
)
