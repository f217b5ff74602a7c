"""How few tokens a rank may have: the time of a step turned round, by trying."""

import math
from collections.abc import Callable
from typing import Any

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.costs.formulas import ring_time_s

Inputs = dict[str, Any]
GRADIENT_BYTES, FLOPS = 2, 6  # of a parameter; of a parameter and token


def _compute_s(inputs: Inputs, tokens: float) -> float:
    return FLOPS * inputs["n_parameters"] * tokens / inputs["flops_per_s"]


def _ring_s(inputs: Inputs, width: float = GRADIENT_BYTES, **changed: float) -> float:
    """The time of an all-reduce with gradients of `width` bytes; changed: another α, say."""
    alpha_s, beta_s_per_byte = (changed.get(name, inputs[name]) for name in ("alpha_s", "beta_s_per_byte"))
    return ring_time_s("all_reduce", width * inputs["n_parameters"], inputs["n_ranks"], alpha_s, beta_s_per_byte)


def _efficiency(inputs: Inputs, tokens: int) -> float:
    """The part of a step in which a rank computes."""
    compute_s, reduce_s = _compute_s(inputs, tokens), _ring_s(inputs)
    step_s = compute_s / 3 + max(2 * compute_s / 3, reduce_s) if inputs["overlapped"] else compute_s + reduce_s
    return compute_s / step_s


def _fewest(inputs: Inputs) -> float:
    """By trying. A float, equal to an int as well."""
    return float(first_enough(lambda tokens: _efficiency(inputs, tokens) >= inputs["efficiency"]))


def _by(inputs: Inputs, compute_per_reduce: float | None = None, reduce_s: float | None = None,
        flops: float = FLOPS) -> float:
    """Tokens, not rounded, at which computing takes so many times as long as the all-reduce."""
    e, beside = inputs["efficiency"], 2 / 3 if inputs["overlapped"] else 0
    times = e / (1 - (1 - beside) * e) if compute_per_reduce is None else compute_per_reduce
    return times * (_ring_s(inputs) if reduce_s is None else reduce_s) * inputs["flops_per_s"] / (
        flops * inputs["n_parameters"])


def _times_of_a_part(inputs: Inputs) -> float:
    """As compute_per_reduce, if one rank's compute is taken for the whole batch's, and divided by n once more."""
    e, beside = inputs["efficiency"], 2 / 3 if inputs["overlapped"] else 0
    return e / (1 - (1 - beside) * e / inputs["n_ranks"])


def _clear(inputs: Inputs) -> bool:
    """Whether rounding errors cannot make it one token more or fewer."""
    return inputs["n_ranks"] == 1 or 0.05 < _by(inputs) % 1 < 0.95


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


def _slip(id: str, hint: str, tokens: Callable[[Inputs], float],
          shows: Callable[[Inputs], bool] = lambda inputs: True) -> Slip:
    """tokens(inputs), rounded up; a single rank needs none in all these ways, and gets one."""
    return Slip(id, hint, lambda case, r, right: float(max(1, math.ceil(tokens(case.inputs[r])))),
                lambda case: shows(case.inputs[0]))


def _overlapped(inputs: Inputs) -> bool:
    return inputs["overlapped"]


EXERCISE = Exercise(
    title="The fewest tokens that are enough",
    forbidden=FORMULAS,
    parameters=("n_parameters", "n_ranks", "flops_per_s", "alpha_s", "beta_s_per_byte", "efficiency", "overlapped"),
    make_cases=_cases,
    oracle=lambda case: [_fewest(case.inputs[0])],
    points={VALUES: 2},
    slips=(
        Slip("rounded down", "One token too few: with a part of a token less than is needed, the efficiency is just below "
                             "what was asked. Round up (math.ceil).",
             lambda case, r, right: float(max(1, math.floor(_by(case.inputs[r]))))),
        Slip("one token too many", "Where some number of tokens gives the very efficiency that is asked for, it is enough "
                                   "(at least): round up, which leaves a whole number as it is.",
             lambda case, r, right: float(math.floor(_by(case.inputs[r])) + 1)),
        Slip("not rounded", "The right number, but not a whole one: tokens are counted, so round up (math.ceil).",
             lambda case, r, right: _by(case.inputs[r]), lambda case: case.inputs[0]["n_ranks"] > 1),
        Slip("next power of two", "Enough, and not the fewest: that is the next power of two. Solve for the tokens "
                                   "instead of trying 1, 2, 4, …",
             lambda case, r, right: float(2 ** math.ceil(math.log2(right[r])))),
        Slip("no token", "One rank sends nothing, so any number of tokens would be enough; the smallest number is 1.",
             lambda case, r, right: 0.0 if case.inputs[r]["n_ranks"] == 1 else right[r]),
        _slip("not overlapped", "With overlap only the first third of the compute stands alone: the all-reduce runs beside "
                                "the rest.", lambda inputs: _by({**inputs, "overlapped": False}), _overlapped),
        _slip("always overlapped", "Without overlap the all-reduce comes after the compute, and all of it is lost time.",
              lambda inputs: _by({**inputs, "overlapped": True}), lambda inputs: not inputs["overlapped"]),
        _slip("all hidden", "So many tokens hide the all-reduce whole, an efficiency of 1. Less is asked: some of it may "
                            "stick out.", lambda inputs: _by(inputs, 3 / 2), _overlapped),
        _slip("part hidden", "Not so much of the all-reduce must be hidden: the efficiency is c/s, computing over the whole "
                             "step, which is c/3 and the all-reduce where that sticks out.",
              lambda inputs: _by(inputs, 3 / 2 * inputs["efficiency"]), _overlapped),
        _slip("hidden by the forward", "Gradients exist only once the backward pass has begun, so the forward third hides "
                                       "nothing.", lambda inputs: _by(inputs, inputs["efficiency"]), _overlapped),
        _slip("forward forgotten", "The backward pass has 4 FLOPs a parameter and token; the efficiency counts the forward "
                                   "pass as well: 6.", lambda inputs: _by(inputs, flops=4)),
        _slip("latency forgotten", "The latencies are missing: 2(n−1) messages one after the other, each with an α.",
              lambda inputs: _by(inputs, reduce_s=_ring_s(inputs, alpha_s=0.0))),
        _slip("gradients in float32", "These gradients have 2 bytes a parameter.",
              lambda inputs: _by(inputs, reduce_s=_ring_s(inputs, width=4))),
        _slip("of all ranks", "That is how many tokens the ranks have together: what is asked is one rank's share.",
              lambda inputs: inputs["n_ranks"] * _by(inputs)),
        _slip("divided by ranks", "That is an n-th of what each rank needs: the tokens asked for are one rank's, so "
              "nothing is left to divide.", lambda inputs: _by(inputs) / inputs["n_ranks"]),
        _slip("compute of one rank", "step_time takes the compute of the whole batch and divides it by n_ranks itself: "
                                     "with t tokens on each rank that is n_ranks times what one rank computes.",
              lambda inputs: _by(inputs, _times_of_a_part(inputs))),
        _slip("loss for efficiency", "The efficiency is the part of the step in which a rank computes, not the part that is "
                                     "lost to waiting.",
              lambda inputs: _by({**inputs, "efficiency": 1 - inputs["efficiency"]})),
    ),
)
