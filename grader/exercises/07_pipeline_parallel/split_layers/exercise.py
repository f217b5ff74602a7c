"""Which layers lie on which stage: in one piece each, sizes that differ by one at most, the larger ones first."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.cuts import Cut, balanced, dealt, later_larger, rest_to_the_last, rounded_down, rounded_up
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    stages = draw.integer(3, 5)
    sizes = [(8, 4), (11, 4), (8, 3), (5, 5), (6, 1), (2, 3), (stages * draw.integer(2, 4) + 2, stages)]
    if grading:
        sizes += [(draw.integer(20, 90), draw.integer(2, 12)), (1, 2), (1, 1)]
    return [Case(f"{layers} layers, {n} stage{'s' * (n > 1)}", ({"n_layers": layers, "n_stages": n},))
            for layers, n in sizes]


def _expected(case: Case, rank: int) -> dict[str, Any]:
    n_layers, n_stages = case.inputs[rank].values()
    return {"ValueError names": [n_layers, n_stages]} if n_stages > n_layers else _parts(case, rank, balanced)


def _parts(case: Case, rank: int, cut: Cut) -> dict[str, Any]:
    n_layers, n_stages = case.inputs[rank].values()
    return {"parts": [list(cut(range(n_layers), stage, n_stages)) for stage in range(n_stages)]}


def _cut(id: str, hint: str, cut: Cut) -> Slip:
    """The parts of another cut, of layers that are enough."""
    return Slip(id, hint, lambda case, rank, right: _parts(case, rank, cut) if "parts" in right[rank] else right[rank])


EXERCISE = Exercise(
    title="Cut the layers into stages",
    parameters=("n_layers", "n_stages"),
    make_cases=_cases,
    oracle=each_rank(_expected),
    points={VALUES: 2},
    slips=(
        _cut("tail lost", "The last layers are on no stage: when the stages do not divide the layers, some get one more.",
             rounded_down),
        _cut("dealt like cards", "Layers are dealt out like cards. A stage's layers lie next to each other, or each "
                                 "would need a message.", dealt),
        _cut("later stages larger", "The sizes are right, but the larger stages come last: here they come first.",
             later_larger),
        _cut("rest on the last stage", "The last stage takes all that is left over, and every other one waits for it: "
                                       "give one layer more to each of the first stages.", rest_to_the_last),
        _cut("rounded up", "Rounding the size up leaves too little for the last stages: sizes may differ by one at most.",
             rounded_up),
    ),
)
