"""How few tokens a rank may have: the time of a step turned round, by trying."""

from typing import Any

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.costs.formulas import ring_time_s

Inputs = dict[str, Any]
GRADIENT_BYTES, FLOPS = 2, 6  # of a parameter; of a parameter and token


def _ring_s(inputs: Inputs) -> float:
    """The time of an all-reduce of the gradients."""
    return ring_time_s("all_reduce", GRADIENT_BYTES * inputs["n_parameters"], inputs["n_ranks"], inputs["alpha_s"],
                       inputs["beta_s_per_byte"])


def _efficiency(inputs: Inputs, tokens: int) -> float:
    """The part of a step in which a rank computes."""
    compute_s, reduce_s = FLOPS * inputs["n_parameters"] * tokens / inputs["flops_per_s"], _ring_s(inputs)
    step_s = compute_s / 3 + max(2 * compute_s / 3, reduce_s) if inputs["overlapped"] else compute_s + reduce_s
    return compute_s / step_s


def _fewest(inputs: Inputs) -> float:
    """By trying. A float, equal to an int as well."""
    return float(first_enough(lambda tokens: _efficiency(inputs, tokens) >= inputs["efficiency"]))


def _clear(inputs: Inputs) -> bool:
    """Whether rounding errors cannot make it one token more or fewer."""
    efficiency, beside = inputs["efficiency"], 2 / 3 if inputs["overlapped"] else 0
    tokens = efficiency / (1 - (1 - beside) * efficiency) * _ring_s(inputs) * inputs["flops_per_s"] / (
        FLOPS * inputs["n_parameters"])  # not rounded
    return inputs["n_ranks"] == 1 or 0.05 < tokens % 1 < 0.95


def _drawn(draw: Draw, n: int, overlapped: bool, efficiency: float, billions: float) -> Inputs:
    while True:
        inputs = {"n_parameters": round(draw.integer(2, 9) * billions * 1e9), "n_ranks": n,
                  "flops_per_s": draw.integer(2, 9) * 1e14, "alpha_s": draw.integer(2, 9) * 1e-6,
                  "beta_s_per_byte": draw.integer(1, 9) * 1e-11, "efficiency": efficiency, "overlapped": overlapped}
        if _clear(inputs):
            return inputs


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Fast links and slow ones; in small models the latencies count."""
    wanted = [(1, True, 0.9, 1), (2, False, 0.6, 1), (2, True, 0.9, 0.01), (64, False, 0.9, 1), (64, True, 0.9, 1),
              (512, True, 0.6, 0.1), (512, False, 0.8, 0.1)]
    drawn = [single(f"{ranks(n)}, {'overlapped' if overlapped else 'one after the other'}, {efficiency:.0%}",
                    **_drawn(draw, n, overlapped, efficiency, billions)) for n, overlapped, efficiency, billions in wanted]
    met = {"n_parameters": 2**30, "n_ranks": 2, "flops_per_s": 3 * 2.0**48, "alpha_s": 2.0**-18, "beta_s_per_byte": 2.0**-36,
           "efficiency": 0.5, "overlapped": False}  # by 4097 tokens: whatever is computed with these numbers has no rest
    return [*drawn, single("2 ranks, one after the other, 50% is met exactly", **met)]


EXERCISE = Exercise(
    title="The fewest tokens that are enough",
    forbidden=FORMULAS,
    parameters=("n_parameters", "n_ranks", "flops_per_s", "alpha_s", "beta_s_per_byte", "efficiency", "overlapped"),
    make_cases=_cases,
    oracle=lambda case: [_fewest(case.inputs[0])],
    points={VALUES: 2},
)
