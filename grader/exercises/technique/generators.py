"""What the exercises that make schedules share: how a schedule is read, and hints on its first fault."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.calling.schedules_run import ONCE
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.schedules import Trouble, peaks, read_schedule, summary, trouble_in
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Look, Symptom
from grader.judging.symptoms import raised
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY
from utils.schedules.schedule import Schedule, Shape

NO_MESSAGE = only_calls(id="communicates")
WHOLE_TIMES = {"F": 1.0, "B": 2.0}
OWN_FAULTS = (NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, MISSING, TOO_EARLY)


def rows_of(look: Look) -> Schedule:
    """The schedule that was returned.  Raises: TypeError, ValueError if it is none."""
    if look.evidence.ending != RETURNED:
        raise ValueError(look.evidence.ending)
    return read_schedule(look.outputs[0])


@dataclass(frozen=True)
class Generator:
    """Looks at the schedules that one exercise asks for. shape(case): theirs; times: how long a step of each kind takes."""

    shape: Callable[[Case], Shape]
    times: dict[str, float]

    def reading(self, case: Case, found: Any) -> dict[str, Any]:
        """What counts of a schedule."""
        return summary(found, self.shape(case), self.times)

    def trouble_in(self, look: Look) -> Trouble | None:
        """Of the schedule that was returned.  Raises: ValueError if it has not one row a rank."""
        rows = rows_of(look)
        if len(rows) != self.shape(look.case).n_ranks:
            raise ValueError(f"{len(rows)} rows")
        return trouble_in(rows, self.shape(look.case))

    def can_run(self, look: Look) -> bool:
        return self.trouble_in(look) is None

    def surplus(self, look: Look) -> list[int]:
        """How many more each rank has in flight than it should.  Raises: ValueError if the schedule cannot run."""
        if not self.can_run(look):
            raise ValueError("it cannot run")
        wanted = look.right[0]["in flight at most"]
        return [count - right for count, right in zip(peaks(rows_of(look)), wanted, strict=True)]

    def fault_seen(self, id: str, why: str) -> Symptom:
        """This fault comes first in the schedule."""

        def matches(look: Look) -> bool:
            trouble = self.trouble_in(look)
            return trouble is not None and trouble[0] == why

        return Symptom(id, matches)

    def own_fault_symptoms(self) -> tuple[Symptom, ...]:
        """A list that is not one over ranks, and the faults that a rank's own list may have."""
        return (Symptom("no schedule", self._no_schedule),
                raised(ONCE, "no schedule"),
                *(self.fault_seen(why, why) for why in OWN_FAULTS))

    def _no_schedule(self, look: Look) -> bool:
        try:
            return look.evidence.ending == RETURNED and len(rows_of(look)) != self.shape(look.case).n_ranks
        except (TypeError, ValueError):
            return True


def _one_stage_a_rank(case: Case) -> Shape:
    inputs = case.inputs[0]
    return Shape(inputs["n_stages"], inputs["n_stages"], inputs["n_micro"])


PLAIN = Generator(_one_stage_a_rank, WHOLE_TIMES)
