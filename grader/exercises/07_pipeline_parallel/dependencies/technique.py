"""How dependencies is read, and what wrong lists have in common."""

from collections.abc import Callable
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Look, Symptom, Technique
from grader.judging.symptoms import raised

Needs = set[tuple[str, int, int]]


def _reading(case: Case, found: Any) -> Any:
    """In any order; a step named twice is named twice."""
    return {step: sorted(map(tuple, needs)) for step, needs in found.items()}


def _wrongly(id: str, test: Callable[[Look, tuple, Needs, Needs], bool]) -> Symptom:
    """Of every step whose needs are not the right ones test(look, step, found, right) holds."""

    def matches(look: Look) -> bool:
        found, right = _reading(look.case, look.outputs[0]), look.right[0]
        wrong = [step for step in right if found[step] != right[step]]
        return look.evidence.ending == RETURNED and bool(wrong) and all(
            test(look, step, set(found[step]), set(right[step])) for step in wrong)

    return Symptom(id, matches)


def _outside(look: Look, step: tuple, found: Needs, right: Needs) -> bool:
    return any(not 0 <= stage < look.case.inputs[0]["n_stages"] for _, _, stage in found)


def _mirrored(look: Look, step: tuple, found: Needs, right: Needs) -> bool:
    """The needs on other stages are those of the neighbour on the other side."""
    kind, micro, stage = step
    neighbour = stage + 1 if kind == "F" else stage - 1
    inside = range(look.case.inputs[0]["n_stages"])
    return len(inside) > 1 and kind != "W" and {need for need in found if need[2] != stage and need[2] in inside} == (
        {(kind, micro, neighbour)} if neighbour in inside else set())


def _indirect(look: Look, step: tuple, found: Needs, right: Needs) -> bool:
    """All that is needed, and what that needs in turn."""
    below = new = {(kind, 0, stage) for kind, _, stage in right}
    while new:
        new = {tuple(need) for one in new for need in look.right[0][one]} - below
        below = below | new
    return right < found and {(kind, 0, stage) for kind, _, stage in found} <= below


TECHNIQUE = Technique(
    reading=_reading,
    demands=(only_calls(id="communicates"),),
    symptoms=(
        raised("NoneType", "None for a list"),
        raised("expected a list of steps", "no list"),
    ),
    fallbacks=(
        _wrongly("other side", _mirrored),
        _wrongly("no such stage", _outside),
        _wrongly("another micro-batch", lambda look, step, found, right: any(micro != step[1] for _, micro, _ in found)),
        _wrongly("indirect needs too", _indirect),
        _wrongly("W alone", lambda look, step, found, right: step[0] == "W"),
        _wrongly("I alone", lambda look, step, found, right: step[0] == "I"),
        _wrongly("a need is missing", lambda look, step, found, right: not right <= found),
        _wrongly("too many needs", lambda look, step, found, right: right <= found),
    ),
)
