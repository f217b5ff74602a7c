"""What a rank holds without ZeRO and at its three stages: the published table, by one formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import floordiv, truediv

from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks

DIVIDED = {0: (), 1: ("state",), 2: ("state", "gradients"), 3: ("state", "gradients", "parameters")}


def held(n_parameters: int, n_ranks: int, stage: int, divided: dict[int, tuple[str, ...]] | None = None,
         state: int = 12, share: Callable[[int, int], float] = truediv) -> float:
    parts = {"parameters": 2, "gradients": 2, "state": state}
    divided = divided or DIVIDED
    return float(sum(share(size, n_ranks if part in divided[stage] else 1) for part, size in parts.items()) * n_parameters)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(7_500_000_000, 64), (7_500_000_000, 1), (draw.integer(1, 99) * 10**6 + 1, draw.integer(3, 9))]
    return [Case(f"stage {stage}, {size:,} parameters on {ranks(n)}",
                 ({"n_parameters": size, "n_ranks": n, "stage": stage},)) for size, n in sizes for stage in DIVIDED]


def _as(**other) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, _: same(found, held(**look.case.inputs[r], **other)))


def _at(stage: int, divided: tuple[str, ...]) -> Callable[[Look], bool]:
    """At this stage these parts are divided instead."""
    matches = _as(divided={**DIVIDED, stage: divided})
    return lambda look: look.case.inputs[0]["stage"] == stage and matches(look)


EXERCISE = Exercise(
    title="The table of the ZeRO paper",
    parameters=("n_parameters", "n_ranks", "stage"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: held(**case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("stages shifted", "Stage 0 divides nothing: it is data parallelism. Stage 1 is the first that divides.",
                lambda look: look.case.inputs[0]["stage"] == 0 and _as(divided={**DIVIDED, 0: ("state",)})(look)),
        Symptom("parameters forgotten", "At stage 2 the 2 bytes of each parameter are still whole on every rank; some notes "
                                        "have (2 + K)Ψ/N, as if they were not there.",
                lambda look: look.case.inputs[0]["stage"] == 2 and wrong_ranks(lambda look, r, found, _: same(
                    found, 14.0 * look.case.inputs[r]["n_parameters"] / look.case.inputs[r]["n_ranks"]))(look)),
        Symptom("gradients whole", "Stage 2 divides the gradients as well.", _at(2, ("state",))),
        Symptom("parameters whole", "Stage 3 divides the parameters as well: nothing is left whole.",
                _at(3, ("state", "gradients"))),
        Symptom("master copy forgotten", "K = 12: the state in mixed precision is momentum, variance and the float32 master "
                                         "copy.", _as(state=8)),
        Symptom("whole bytes", "N need not divide: use /, not //.", wrong_ranks(
            lambda look, r, found, expected: found == held(**look.case.inputs[r], share=floordiv))),
    ),
    ),
)
