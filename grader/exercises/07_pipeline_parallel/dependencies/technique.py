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


def _wrongly(id: str, hint: str, test: Callable[[Look, tuple, Needs, Needs], bool]) -> Symptom:
    """Of every step whose needs are not the right ones test(look, step, found, right) holds."""

    def matches(look: Look) -> bool:
        found, right = _reading(look.case, look.outputs[0]), look.right[0]
        wrong = [step for step in right if found[step] != right[step]]
        return look.evidence.ending == RETURNED and bool(wrong) and all(
            test(look, step, set(found[step]), set(right[step])) for step in wrong)

    return Symptom(id, hint, matches)


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
    demands=(only_calls(id="communicates", hint="This is a question about data: no message is needed."),),
    symptoms=(
        raised("NoneType", "Some step gets no answer: return a list for every kind, an empty one where nothing is needed.",
               "None for a list"),
        raised("expected a list of steps", "Return a list of Steps: what uses it goes through it more than once.", "no "
                                                                                                                   "list"),
    ),
    fallbacks=(
        _wrongly("other side", "One direction is the wrong way round: activations come from the stage before (stage − 1), "
                               "gradients from the stage after (stage + 1).", _mirrored),
        _wrongly("no such stage", "A step waits for a stage that there is not: the first stage's forward waits for nobody, "
                                  "nor does the last stage's backward wait for a stage after it.", _outside),
        _wrongly("another micro-batch", "A step waits for another micro-batch. Those do not need each other: in which order "
                                        "a rank takes them, the schedule says.",
                 lambda look, step, found, right: any(micro != step[1] for _, micro, _ in found)),
        _wrongly("indirect needs too", "Only direct needs: what they need in turn they have waited for "
                                       "themselves.", _indirect),
        _wrongly("W alone", "W is wrong: it uses what the I of its own stage found on its way, and nothing from another "
                            "stage.", lambda look, step, found, right: step[0] == "W"),
        _wrongly("I alone", "B is right, I is not: it needs what B needs, but from the I of the stage after.",
                 lambda look, step, found, right: step[0] == "I"),
        _wrongly("a need is missing", "Something that a step uses is not in its list. A forward uses the activations of the "
                                      "stage before; a backward its own forward's activations and the gradient of the stage "
                                      "after; W what its I found.", lambda look, step, found, right: not right <= found),
        _wrongly("too many needs", "A step lists something that it does not use, or the same step twice.",
                 lambda look, step, found, right: right <= found),
    ),
)
