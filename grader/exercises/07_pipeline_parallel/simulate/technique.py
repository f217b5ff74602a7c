"""How simulate must be done, and where it first differs."""

from collections.abc import Callable

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom


def _only_makespan(look: Look) -> bool:
    found, right = look.outputs[0], look.right[0]
    return same(found["times"], right["times"]) and not same(found["makespan"], right["makespan"])


def _only(part: str) -> Callable[[Look], bool]:
    """All parts but one are right."""

    def matches(look: Look) -> bool:
        found, right = look.outputs[0], look.right[0]
        return {name for name in right if not same(found[name], right[name])} == {part}

    return matches


def _lengths(look: Look) -> bool:
    """Each start is right, and in the place of the end is how long the step takes."""
    found, right, lasts = look.outputs[0]["times"], look.right[0]["times"], look.case.inputs[0]["durations"]
    return same(found, {step: (start, lasts[step[0]]) for step, (start, _) in right.items()})


def _starts(early: bool) -> Callable[[Look], bool]:
    """Some step starts too early; or none does, and some too late."""

    def matches(look: Look) -> bool:
        found, right = look.outputs[0]["times"], look.right[0]["times"]
        late = [found[step][0] - start for step, (start, _) in right.items()]
        return min(late) < -1e-6 if early else min(late) >= -1e-6 and max(late) > 1e-6

    return matches


TECHNIQUE = arithmetic(
    fallbacks=(
        Symptom("length for end", _lengths),
        Symptom("peaks", _only("peaks")),
        Symptom("bubble rate", _only("bubble rate")),
        Symptom("makespan", _only_makespan),
        Symptom("starts early", _starts(early=True)),
        Symptom("starts late", _starts(early=False)),
    ),
)
