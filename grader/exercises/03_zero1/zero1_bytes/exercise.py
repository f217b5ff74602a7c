"""(4 + 12/N)·Ψ: what a rank holds under ZeRO-1 in mixed precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Symptom, Technique
from grader.judging.symptoms import every_rank, wrong_ranks


def bytes_held(n_parameters: int, n_ranks: int) -> float:
    return (4 + 12 / n_ranks) * n_parameters


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(7_500_000_000, 64), (7_500_000_000, 1), (draw.integer(1, 99) * 10**6, 4), (1_000_000, draw.integer(5, 1000))]
    return [Case(f"{size:,} parameters on {ranks(n)}", ({"n_parameters": size, "n_ranks": n},)) for size, n in sizes]


def _as(other: Callable[[int, int], float]) -> Callable:
    return wrong_ranks(lambda look, r, found, _: same(found, float(other(**look.case.inputs[r]))))


EXERCISE = Exercise(
    title="Predict what a rank holds",
    parameters=("n_parameters", "n_ranks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: bytes_held(**case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("nothing divided", "That is data parallelism's 16 bytes a parameter: the 12 of master copy, momentum and "
                                   "variance are shared out.", _as(lambda n_parameters, n_ranks: 16 * n_parameters)),
        Symptom("all divided", "Parameters and gradients (2 + 2 bytes) are still whole on every rank.",
                _as(lambda n_parameters, n_ranks: 16 * n_parameters / n_ranks)),
        Symptom("gradients divided", "ZeRO-1 keeps whole gradients: dividing them too is ZeRO-2.",
                _as(lambda n_parameters, n_ranks: (2 + 14 / n_ranks) * n_parameters)),
        Symptom("master copy whole", "(8 + 8/N)Ψ: the float32 master copy is part of the optimizer's state and divided too.",
                _as(lambda n_parameters, n_ranks: (8 + 8 / n_ranks) * n_parameters)),
        Symptom("whole bytes", "N need not divide 12Ψ: use /, not //.",
                every_rank(lambda look, r, found, expected: isinstance(found, int) and found == int(expected))),
    ),
    ),
)
