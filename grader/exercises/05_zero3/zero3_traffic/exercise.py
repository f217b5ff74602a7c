"""What a rank sends under ZeRO-3: two all-gathers and a reduce-scatter, or one all-gather if layers are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.evidence.case import Case
from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.exercise import VALUES, Draw, Exercise
from grader.judging.slips import Slip

from .technique import TECHNIQUE

Passes = Callable[[int, bool], int]  # (micro-batches, are layers freed after forward) -> how often all parameters travel


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(7_500_000_000, 64, 1), (1_000_000, 6, draw.integer(2, 8)), (draw.integer(1, 99) * 10**6, 1, 2)]
    return [Case(f"{size:,} parameters, {ranks(n)}, {k} micro-batch{'es' * (k > 1)}, {'freed' if again else 'kept'}", ({
        "n_parameters": size, "n_ranks": n, "n_micro": k, "reshard_after_forward": again},))
        for size, n, k in sizes for again in (True, False)]


def _passes(k: int, again: bool) -> int:
    return k * (2 + again)


def _sent(case: Case, rank: int, passes: Passes = _passes) -> float:
    inputs, n = case.inputs[rank], case.inputs[rank]["n_ranks"]
    return passes(inputs["n_micro"], inputs["reshard_after_forward"]) * (n - 1) / n * 2 * inputs["n_parameters"]


def _in_all(passes: Passes) -> Callable[..., float]:
    """What is sent if the parameters travel that often."""
    return lambda case, rank, right: _sent(case, rank, passes)


def _own_share_too(case: Case, rank: int, right: list[float]) -> float:
    inputs = case.inputs[rank]
    return 2.0 * _passes(inputs["n_micro"], inputs["reshard_after_forward"]) * inputs["n_parameters"]


EXERCISE = Exercise(
    title="3Ψ, and when it is less",
    parameters=("n_parameters", "n_ranks", "n_micro", "reshard_after_forward"),
    make_cases=_cases,
    oracle=each_rank(_sent),
    technique=TECHNIQUE,
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        Slip("gathered twice in backward", "One all-gather in forward and one in backward, not two in each: 3Ψ in all with "
                                           "the reduce-scatter.",
             _in_all(lambda k, again: k * (3 + again)), shows=lambda case: case.inputs[0]["reshard_after_forward"]),
        Slip("backward for free", "What was freed after forward must be gathered again in backward.",
             _in_all(lambda k, again: k * 2)),
        Slip("kept for nothing", "Layers that are kept after forward need no second all-gather.",
             _in_all(lambda k, again: k * 3)),
        Slip("once a step", "Nothing whole is kept from one micro-batch to the next, and no gradient: every micro-batch "
                            "gathers and reduces anew.", _in_all(lambda k, again: 2 + again)),
        Slip("reduced once", "A whole gradient has no place to wait for the last micro-batch: each one is reduced.",
             _in_all(lambda k, again: k * (1 + again) + 1)),
        Slip("float32", "In mixed precision parameters and gradients travel with 2 bytes a number.",
             lambda case, r, right: right[r] * 2),
        Slip("own share sent", "A rank does not send its own shard to itself: (n−1)/n of it.", _own_share_too),
    ),
)
