"""What a rank sends in a step of k micro-batches: data parallelism, ZeRO-1 and ZeRO-2."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.demands import only_calls
from grader.exercise import VALUES, Case, Draw, Exercise, Symptom
from grader.exercises.u01_collectives.inputs import each_rank, ranks
from grader.symptoms import same, wrong_ranks


def _sent(passes: Callable[[int], float], n_parameters: int, n_ranks: int, n_micro: int, **_) -> float:
    return passes(n_micro) * (n_ranks - 1) / n_ranks * 2 * n_parameters


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    found = []
    for n, micro in ((1, 1), (4, 1), (4, draw.integer(2, 4)), (64, 8)):
        inputs = {"n_parameters": draw.integer(1, 9) * 10**6, "n_ranks": n, "n_micro": micro}
        found.append(Case(f"{ranks(n)}, {micro} micro-batch{'es' * (micro > 1)}", (inputs,)))
    return found


def _as(passes: Callable[[int], float], bytes_each: float = 2, whole: bool = False) -> Callable:
    def test(look, rank, found, _) -> bool:
        inputs = look.case.inputs[rank]
        share = 1 if whole else (inputs["n_ranks"] - 1) / inputs["n_ranks"]
        return same(found, float(passes(inputs["n_micro"]) * share * bytes_each * inputs["n_parameters"]))

    return wrong_ranks(test)


EXERCISE = Exercise(
    id="zero2_traffic",
    unit="04_zero2",
    title="What accumulation costs",
    parameters=("n_parameters", "n_ranks", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _sent(lambda k: k + 1, **case.inputs[r])),
    adapter="call_plain",
    tolerance=1e-9,
    points={VALUES: 2},
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    symptoms=(
        Symptom("accumulation free", "That is the traffic of one micro-batch: ZeRO-2 has nowhere to keep a whole gradient, "
                                     "so it reduce-scatters after every backward pass.", _as(lambda k: 2)),
        Symptom("parameters every time", "Parameters change once a step, so they are gathered once; only the gradients "
                                         "travel after every backward pass.", _as(lambda k: 2 * k)),
        Symptom("parameters forgotten", "After the update the parameters are gathered: one more pass of Ψ.",
                _as(lambda k: k)),
        Symptom("float32", "In mixed precision gradients and parameters travel with 2 bytes each.", _as(lambda k: k + 1, 4)),
        Symptom("own share sent", "A rank does not send itself its own share: (n−1)/n.", _as(lambda k: k + 1, whole=True)),
    ),
)
