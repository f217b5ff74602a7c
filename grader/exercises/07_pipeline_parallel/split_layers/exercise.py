"""Which layers lie on which stage: in one piece each, sizes that differ by one at most, the larger ones first."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank
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
    if n_stages > n_layers:
        return {"ValueError names": [n_layers, n_stages]}
    each, more = divmod(n_layers, n_stages)
    return {"parts": _pieces([each + (stage < more) for stage in range(n_stages)])}


def _pieces(sizes: Sequence[int]) -> list[list[int]]:
    """Layers dealt out in order, sizes[s] of them to stage s."""
    return [list(range(sum(sizes[:s]), sum(sizes[:s + 1]))) for s in range(len(sizes))]


def _cut(id: str, hint: str, cut: Callable[[int, int], list[list[int]]]) -> Slip:
    """The parts of another cut, of layers that are enough."""
    return Slip(id, hint, lambda case, rank, right: {"parts": cut(*case.inputs[rank].values())},
                shows=lambda case: "parts" in _expected(case, 0))


def _later_larger(n_layers: int, n_stages: int) -> list[list[int]]:
    each, more = divmod(n_layers, n_stages)
    return _pieces([each + (stage >= n_stages - more) for stage in range(n_stages)])


def _rest_last(n_layers: int, n_stages: int) -> list[list[int]]:
    each, more = divmod(n_layers, n_stages)
    return _pieces([each] * (n_stages - 1) + [each + more])


def _rounded_up(n_layers: int, n_stages: int) -> list[list[int]]:
    each = -(-n_layers // n_stages)
    return [list(range(n_layers))[s * each:(s + 1) * each] for s in range(n_stages)]


EXERCISE = Exercise(
    title="Cut the layers into stages",
    parameters=("n_layers", "n_stages"),
    make_cases=_cases,
    oracle=each_rank(_expected),
    points={VALUES: 2},
    slips=(
        _cut("tail lost", "The last layers are on no stage: when the stages do not divide the layers, some get one more.",
             lambda n, p: _pieces([n // p] * p)),
        _cut("dealt like cards", "Layers are dealt out like cards. A stage's layers lie next to each other, or each "
                                 "would need a message.", lambda n, p: [list(range(s, n, p)) for s in range(p)]),
        _cut("later stages larger", "The sizes are right, but the larger stages come last: here they come first.",
             _later_larger),
        _cut("rest on the last stage", "The last stage takes all that is left over, and every other one waits for it: "
                                       "give one layer more to each of the first stages.", _rest_last),
        _cut("rounded up", "Rounding the size up leaves too little for the last stages: sizes may differ by one at most.",
             _rounded_up),
    ),
)
