"""The time of a step: compute that shrinks with the ranks, and an all-reduce that does not, hidden or not."""

from collections.abc import Callable
from operator import add
from typing import Any

from grader.exercises.shared.cases import ranks
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.costs.formulas import ring_time_s


def _overlapped(compute_s: float, reduce_s: float, backward: float = 2 / 3) -> float:
    """backward: the part of the compute that the all-reduce runs beside."""
    return compute_s * (1 - backward) + max(backward * compute_s, reduce_s)


def _all_reduce_s(inputs: dict[str, Any], share: float = 1.0) -> float:
    """The time for this share of the gradients."""
    return ring_time_s("all_reduce", share * inputs["gradient_bytes"], inputs["n_ranks"], inputs["alpha_s"],
                       inputs["beta_s_per_byte"])


def _compute_s(inputs: dict[str, Any]) -> float:
    """What one rank computes."""
    return inputs["compute_s"] / inputs["n_ranks"]


def _ring_s(inputs: dict[str, Any], alphas: float | None = None, beta_s_per_byte: float | None = None) -> float:
    """The time of an all-reduce that counts the latency `alphas` times, or has another time a byte."""
    n, alpha_s = inputs["n_ranks"], inputs["alpha_s"]
    beta_s_per_byte = inputs["beta_s_per_byte"] if beta_s_per_byte is None else beta_s_per_byte
    alphas = 2 * (n - 1) if alphas is None else alphas
    return alphas * alpha_s + 2 * (n - 1) / n * inputs["gradient_bytes"] * beta_s_per_byte


def _seconds(inputs: dict[str, Any]) -> float:
    return (_overlapped if inputs["overlapped"] else add)(_compute_s(inputs), _all_reduce_s(inputs))


def _cases(draw: Draw, grading: bool) -> list[Case]:
    return [single(f"{ranks(n)}, {'overlapped' if overlapped else 'one after the other'}",
                   compute_s=draw.integer(1, 9) * 1.0, gradient_bytes=draw.integer(1, 9) * 1e9, n_ranks=n,
                   alpha_s=1e-5, beta_s_per_byte=draw.integer(1, 4) * 1e-10, overlapped=overlapped)
            for n in (1, 2, 4, 64, 1024) for overlapped in (False, True)] + [
        single("4 ranks, 10 bytes, one after the other", compute_s=1.0, gradient_bytes=10.0, n_ranks=4, alpha_s=0.5,
               beta_s_per_byte=0.25, overlapped=False)]


def _in_sequence(id: str, hint: str, wrong: Callable[[dict[str, Any]], float]) -> Slip:
    """wrong(inputs), looked for without overlap: there nothing hides it."""
    return Slip(id, hint, lambda case, r, right: wrong(case.inputs[r]), lambda case: not case.inputs[0]["overlapped"])


def _in_overlap(id: str, hint: str, wrong: Callable[[float, float], float]) -> Slip:
    """wrong(compute_s, reduce_s), looked for where the two overlap."""
    return Slip(id, hint, lambda case, r, right: wrong(_compute_s(case.inputs[r]), _all_reduce_s(case.inputs[r])),
                lambda case: case.inputs[0]["overlapped"])


def _latency_apart(inputs: dict[str, Any]) -> float:
    """Only the bytes run beside the backward pass."""
    latency_s = _ring_s(inputs, beta_s_per_byte=0.0)
    return _overlapped(_compute_s(inputs), _ring_s(inputs) - latency_s) + latency_s


def _backward_of_all(case: Case, rank: int, right: list[float]) -> float:
    """The whole batch's backward pass, on each rank."""
    inputs = case.inputs[rank]
    return _compute_s(inputs) / 3 + max(inputs["compute_s"] * 2 / 3, _all_reduce_s(inputs))


def _hidden_behind_all(case: Case, rank: int, right: list[float]) -> float:
    """The all-reduce runs beside that of the whole batch, which nobody computes."""
    inputs = case.inputs[rank]
    return _compute_s(inputs) + max(0.0, _all_reduce_s(inputs) - inputs["compute_s"] * 2 / 3)


EXERCISE = Exercise(
    title="Predict the time of a step",
    forbidden=FORMULAS,
    parameters=("compute_s", "gradient_bytes", "n_ranks", "alpha_s", "beta_s_per_byte", "overlapped"),
    make_cases=_cases,
    oracle=lambda case: [_seconds(case.inputs[0])],
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        Slip("latency never hidden", "Too long by the latency: with overlap all of the all-reduce runs beside the backward "
                                     "pass, its 2(n−1)·α too.",
             lambda case, r, right: _latency_apart(case.inputs[r]), lambda case: case.inputs[0]["overlapped"]),
        _in_sequence("compute not divided", "Every rank computes its share of the batch only: compute_s / n.",
                     lambda inputs: inputs["compute_s"] + _all_reduce_s(inputs)),
        _in_sequence("one phase", "A ring all-reduce has two phases of n−1 steps each, reduce-scatter and all-gather.",
                     lambda inputs: _compute_s(inputs) + _all_reduce_s(inputs) / 2),
        _in_sequence("gradients divided", "The gradients do not shrink with the ranks: each rank has one for every "
                                          "parameter.",
                     lambda inputs: _compute_s(inputs) + _all_reduce_s(inputs, share=1 / inputs["n_ranks"])),
        _in_sequence("not cut", "In a ring each message is one of n parts: 2(n−1) of them carry gradient_bytes / n each.",
                     lambda inputs: _compute_s(inputs) + _all_reduce_s(inputs, share=inputs["n_ranks"])),
        _in_sequence("latency once", "Each of the ring's 2(n−1) rounds begins with a latency α of its own: α counts once a "
                                     "message.", lambda inputs: _compute_s(inputs) + _ring_s(inputs, alphas=1)),
        _in_sequence("latency once", "Each of the ring's 2(n−1) rounds begins with a latency α of its own: α counts once a "
                                     "message.", lambda inputs: _compute_s(inputs) + _ring_s(inputs, alphas=2)),
        _in_sequence("latency divided", "A latency does not get shorter with the part that is sent: each of the 2(n−1) "
                                        "rounds costs a whole α.",
                     lambda inputs: _compute_s(inputs) + _ring_s(
                         inputs, alphas=2 * (inputs["n_ranks"] - 1) / inputs["n_ranks"])),
        _in_sequence("divided by beta", "beta_s_per_byte is seconds a byte, the inverse of a bandwidth: multiply by it.",
                     lambda inputs: _compute_s(inputs) + _ring_s(inputs, beta_s_per_byte=1 / inputs["beta_s_per_byte"])),
        _in_sequence("milliseconds", "The result is in seconds.", lambda inputs: 1e3 * _seconds(inputs)),
        _in_sequence("always overlapped", "Without overlap the all-reduce comes after the compute: their sum.",
                     lambda inputs: _overlapped(_compute_s(inputs), _all_reduce_s(inputs))),
        _in_overlap("not overlapped", "With overlap the all-reduce runs beside the backward pass: the longer of the two "
                                      "counts, not their sum.", add),
        _in_overlap("hidden by the forward", "Gradients exist only once the backward pass has begun, so the forward third "
                                             "hides nothing.", max),
        _in_overlap("hidden for free", "What is longer than the backward pass cannot hide behind it: max(backward, "
                                       "all-reduce).", lambda compute_s, reduce_s: compute_s),
        _in_overlap("half and half", "The backward pass takes two thirds of the compute: it has twice the forward's work.",
                    lambda compute_s, reduce_s: _overlapped(compute_s, reduce_s, backward=1 / 2)),
        _in_overlap("the other third", "It is the backward pass that takes two thirds of the compute, not the forward pass: "
                                       "it computes two gradients for each product.",
                    lambda compute_s, reduce_s: _overlapped(compute_s, reduce_s, backward=1 / 3)),
        *(Slip("backward not divided", "With overlap too, every rank computes its share of the batch only: forward and "
                                       "backward are both divided by n.", wrong, lambda case: case.inputs[0]["overlapped"])
          for wrong in (_backward_of_all, _hidden_behind_all)),
    ),
)
