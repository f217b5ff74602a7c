"""(2 + 14/N)·Ψ: what a rank holds under ZeRO-2 in mixed precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Symptom, Technique
from grader.judging.symptoms import every_rank, wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(7_500_000_000, 64), (7_500_000_000, 1), (draw.integer(1, 99) * 10**6, 4), (1_000_000, draw.integer(5, 1000))]
    return [Case(f"{size:,} parameters on {ranks(n)}", ({"n_parameters": size, "n_ranks": n},)) for size, n in sizes]


def _as(a_parameter: Callable[[int], float]) -> Callable:
    """So many bytes a parameter, on n ranks."""
    return wrong_ranks(lambda look, r, found, _: same(
        found, float(a_parameter(look.case.inputs[r]["n_ranks"]) * look.case.inputs[r]["n_parameters"])))


EXERCISE = Exercise(
    title="Predict what a rank holds",
    parameters=("n_parameters", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: (2 + 14 / case.inputs[r]["n_ranks"]) * case.inputs[r]["n_parameters"]),
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("parameters forgotten", "That divides everything: the 2 bytes of each parameter itself still stand on every "
                                        "rank. (Some notes have (2 + K)Ψ/N here; it is 2Ψ + (2 + K)Ψ/N.)",
                lambda look: _as(lambda n: 16 / n)(look) or _as(lambda n: 14 / n)(look)),
        Symptom("gradients whole", "(4 + 12/N)Ψ is ZeRO-1: here the gradients are divided too.", _as(lambda n: 4 + 12 / n)),
        Symptom("nothing divided", "That is data parallelism's 16 bytes a parameter.", _as(lambda n: 16)),
        Symptom("state whole", "The gradients are divided, and so is, since ZeRO-1, the optimizer's state.",
                _as(lambda n: 14 + 2 / n)),
        Symptom("whole bytes", "N need not divide 14Ψ: use /, not //.",
                every_rank(lambda look, r, found, expected: isinstance(found, int) and found == int(expected))),
    ),
    ),
)
