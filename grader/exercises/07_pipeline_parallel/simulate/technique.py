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
        Symptom("one peak for all", "peaks is a list, one number for each rank.",
                lambda look: len(look.outputs[0]["peaks"]) != len(look.case.inputs[0]["schedule"])),
        Symptom("length for end", "times maps each step to its start and its end; yours has how long it takes in place of "
                                  "the end.", _lengths),
        Symptom("peaks", "Only peaks is wrong: walk through each rank's list, one up at every F and one down at every B (or "
                         "W), whichever micro-batch and stage it is, and keep the most.", _only("peaks")),
        Symptom("bubble rate", "Only the bubble rate is wrong: busy is the sum of all steps' durations, without hops, and "
                               "the time of all ranks is n_ranks · makespan.", _only("bubble rate")),
        Symptom("steps left out", "times holds every step of every rank, and nothing else.",
                lambda look: look.outputs[0]["times"].keys() != look.right[0]["times"].keys()),
        Symptom("makespan", "The makespan is the last end on any rank.", _only_makespan),
        Symptom("starts early", "A step starts before its rank is free, or before all that it needs has arrived: its start "
                                "is the latest of these.", _starts(early=True)),
        Symptom("starts late", "A step starts later than it must: as soon as its rank is free and all that it needs has "
                               "arrived. A hop delays what is needed from another rank, and nothing else.",
                _starts(early=False)),
    ),
)
