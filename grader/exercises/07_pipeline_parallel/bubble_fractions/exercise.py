"""The idle share of a pipeline, by both conventions: of the ideal time, and of all the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks

Fractions = Callable[[int, int, int], tuple[float, float]]


def fractions(p: int, m: int, v: int) -> tuple[float, float]:
    return (p - 1) / (v * m), (p - 1) / (v * m + p - 1)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(4, 8, 1), (8, 8, 2), (1, 5, 1), (3, 1, 1), (draw.integer(5, 9), draw.integer(10, 30), 3)]
    sizes += [(draw.integer(2, 16), draw.integer(2, 64), draw.integer(1, 4)) for _ in range(3)] * grading
    return [Case(f"{p} stage{'s' * (p > 1)}, {m} micro-batch{'es' * (m > 1)}, {v} chunk{'s' * (v > 1)} a rank",
                 ({"n_stages": p, "n_micro": m, "n_chunks": v},)) for p, m, v in sizes]


def _as(other: Fractions) -> Callable[[Look], bool]:
    """Every wrong case shows it, not only one that a different mistake would explain as well."""
    return wrong_ranks(lambda look, r, found, _: same(tuple(found), tuple(map(float, other(*look.case.inputs[r].values())))))


EXERCISE = Exercise(
    title="The bubble, by both conventions",
    parameters=("n_stages", "n_micro", "n_chunks"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: fractions(*case.inputs[r].values())),
    tolerance=1e-6,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("swapped", "The two are swapped: first the share of the ideal time, then the smaller one, of all the time.",
                _as(lambda p, m, v: fractions(p, m, v)[::-1])),
        Symptom("one too many", "A stage waits for the p − 1 others, not for p.",
                _as(lambda p, m, v: (p / (v * m), p / (v * m + p)))),
        Symptom("chunks forgotten", "With v chunks a rank each pass of one chunk takes 1/v of the time, and so does what "
                                    "a rank "
                                    "waits: v multiplies m.", _as(lambda p, m, v: fractions(p, m, 1))),
        Symptom("chunks divide once", "The chunks stand in the first share only: in the second one too v multiplies m.",
                _as(lambda p, m, v: ((p - 1) / (v * m), (p - 1) / (m + p - 1)))),
        Symptom("bubble divided last", "All the time is the ideal time plus the bubble, and v shrinks only the bubble: "
                                       "(p − 1)/(v·m + p − 1).",
                _as(lambda p, m, v: ((p - 1) / (v * m), (p - 1) / (v * (m + p - 1))))),
        Symptom("total without the bubble", "All the time holds the bubble too: v·m + p − 1 below the line.",
                _as(lambda p, m, v: ((p - 1) / (v * m), (p - 1) / (v * m)))),
        Symptom("stages added", "All the time is v·m + (p − 1) passes, not v·m + p.",
                _as(lambda p, m, v: ((p - 1) / (v * m), (p - 1) / (v * m + p)))),
    ),
    ),
)
