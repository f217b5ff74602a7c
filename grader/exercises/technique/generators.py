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
from utils.schedules.schedule import SPLIT, WHOLE, Schedule, Shape

NO_MESSAGE = only_calls(id="communicates", hint="A schedule is data: no message is needed to make one.")
WHOLE_TIMES = {"F": 1.0, "B": 2.0}
OWN_FAULTS = {
    NO_SUCH_MICRO: "There is a step of a micro-batch that does not exist: they go from 0 to n_micro − 1, in every "
                   "phase.",
    NOT_THIS_RANKS: "A step has a stage that is another rank's: rank r has stage r, and with several chunks every "
                    "n_ranks-th one after it.",
    REPEATED: "A step comes twice on one rank.",
    MISSING: "Steps are missing: every micro-batch goes forward and backward once on every stage. Count what each phase "
             "does; together they make n_micro forwards and n_micro backwards.",
    TOO_EARLY: "A backward comes before its own forward on the same rank.",
}


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

    def fault_seen(self, id: str, hint: str, why: str, kinds: str = WHOLE + SPLIT) -> Symptom:
        """The schedule has this fault, at a step of one of these kinds."""

        def matches(look: Look) -> bool:
            trouble = self.trouble_in(look)
            return trouble is not None and trouble[0] == why and trouble[1].kind in kinds

        return Symptom(id, hint, matches)

    def own_fault_symptoms(self) -> tuple[Symptom, ...]:
        """A list that is not one over ranks, and the faults that a rank's own list may have."""
        return (Symptom("no schedule", "Return a list of lists, one for each rank, and in it one Step(kind, micro, stage) "
                        "after another.", _no_schedule),
                Symptom("not a row a rank", "Return a list with one list of steps for each rank, rank 0's first.",
                        lambda look: len(rows_of(look)) != self.shape(look.case).n_ranks),
                raised(ONCE, "An iterator is empty once it has been looked at: return a list, and in it a list of steps for "
                             "each rank.", "an iterator for a list"),
                *(self.fault_seen(why, hint, why) for why, hint in OWN_FAULTS.items()))


def _no_schedule(look: Look) -> bool:
    try:
        return look.evidence.ending == RETURNED and not read_schedule(look.outputs[0])
    except (TypeError, ValueError):
        return True


def _one_stage_a_rank(case: Case) -> Shape:
    inputs = case.inputs[0]
    return Shape(inputs["n_stages"], inputs["n_stages"], inputs["n_micro"])


PLAIN = Generator(_one_stage_a_rank, WHOLE_TIMES)
