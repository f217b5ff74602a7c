"""What a rank sends under ZeRO-3: two all-gathers and a reduce-scatter, or one all-gather if layers are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def sent(n_parameters: int, n_ranks: int, n_micro: int, reshard_after_forward: bool, *,
         times=lambda k, again: k * (2 + again), itemsize: int = 2, share=lambda n: (n - 1) / n) -> float:
    return float(times(n_micro, reshard_after_forward) * share(n_ranks) * itemsize * n_parameters)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(7_500_000_000, 64, 1), (1_000_000, 6, draw.integer(2, 8)), (draw.integer(1, 99) * 10**6, 1, 2)]
    return [Case(f"{size:,} parameters, {ranks(n)}, {k} micro-batch{'es' * (k > 1)}, {'freed' if again else 'kept'}", ({
        "n_parameters": size, "n_ranks": n, "n_micro": k, "reshard_after_forward": again},))
        for size, n, k in sizes for again in (True, False)]


def _as(**other) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: same(found, sent(**look.case.inputs[r], **other)))


def _freed_as(**other) -> Callable[[Look], bool]:
    """In a case where layers are freed after forward."""
    matches = _as(**other)
    return lambda look: look.case.inputs[0]["reshard_after_forward"] and matches(look)


EXERCISE = Exercise(
    title="3Ψ, and when it is less",
    parameters=("n_parameters", "n_ranks", "n_micro", "reshard_after_forward"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: sent(**case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("gathered twice in backward", "One all-gather in forward and one in backward, not two in each: 3Ψ in all "
                                              "with the reduce-scatter.", _freed_as(times=lambda k, again: k * (3 + again))),
        Symptom("backward for free", "What was freed after forward must be gathered again in backward.",
                _as(times=lambda k, again: k * 2)),
        Symptom("kept for nothing", "Layers that are kept after forward need no second all-gather.",
                _as(times=lambda k, again: k * 3)),
        Symptom("once a step", "Nothing whole is kept from one micro-batch to the next, and no gradient: every micro-batch "
                               "gathers and reduces anew.", _as(times=lambda k, again: 2 + again)),
        Symptom("reduced once", "A whole gradient has no place to wait for the last micro-batch: each one is reduced.",
                _as(times=lambda k, again: k * (1 + again) + 1)),
        Symptom("float32", "In mixed precision parameters and gradients travel with 2 bytes a number.", _as(itemsize=4)),
        Symptom("own share sent", "A rank does not send its own shard to itself: (n−1)/n of it.", _as(share=lambda n: 1)),
    ),
    ),
)
