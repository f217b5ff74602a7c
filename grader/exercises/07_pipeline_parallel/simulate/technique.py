"""How simulate must be done, and where it first differs."""

from collections.abc import Callable

from grader.exercises.technique.arithmetic import arithmetic
from grader.judging.compare import same
from grader.judging.exercise import Look, Symptom


def _only_makespan(look: Look) -> bool:
    found, right = look.outputs[0], look.right[0]
    return same(found["times"], right["times"]) and not same(found["makespan"], right["makespan"])


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
        Symptom("makespan", "The makespan is the last end on any rank.", _only_makespan),
        Symptom("starts early", "A step starts before its rank is free, or before all that it needs has arrived: its start "
                                "is the latest of these.", _starts(early=True)),
        Symptom("starts late", "A step starts later than it must: as soon as its rank is free and all that it needs has "
                               "arrived. A hop delays what is needed from another rank, and nothing else.",
                _starts(early=False)),
    ),
)
