"""What the exercises that make schedules share: how a schedule is read, and hints on its first fault."""

from collections.abc import Callable
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.schedules import Rows, as_rows, fault_of, peaks, summary
from grader.judging.demands import only_calls
from grader.judging.exercise import Case, Look, Symptom
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY
from utils.schedules.schedule import Fault, Shape

WHOLE_TIMES = {"F": 1.0, "B": 2.0}

NO_MESSAGE = only_calls(id="communicates", hint="A schedule is data: no message is needed to make one.")


def plain_shape(case: Case) -> Shape:
    """One stage a rank, backward in one piece."""
    inputs = case.inputs[0]
    return Shape(inputs["n_stages"], inputs["n_stages"], inputs["n_micro"])


def plain_reading(case: Case, found: Any) -> dict[str, Any]:
    """What counts of a schedule of that shape."""
    return summary(found, plain_shape(case), WHOLE_TIMES)


def rows_of(look: Look) -> Rows:
    """The schedule that was returned.  Raises: TypeError, ValueError if it is none."""
    if look.evidence.ending != RETURNED:
        raise ValueError(look.evidence.ending)
    return as_rows(look.outputs[0])


def fault_seen(id: str, hint: str, test: Callable[[Fault], bool], shape: Callable[[Case], Shape]) -> Symptom:
    """The returned schedule has a fault for which test(fault) holds."""

    def matches(look: Look) -> bool:
        rows = rows_of(look)
        fault = fault_of(rows, shape(look.case)) if len(rows) == shape(look.case).n_ranks else None
        return fault is not None and test(fault)

    return Symptom(id, hint, matches)


def own_fault_symptoms(shape: Callable[[Case], Shape]) -> tuple[Symptom, ...]:
    """A list that is not one over ranks, and the faults that a rank's own list may have."""
    hints = {
        NO_SUCH_MICRO: "There is a step of a micro-batch that does not exist: they go from 0 to n_micro − 1, in every "
                       "phase.",
        NOT_THIS_RANKS: "A step has a stage that is another rank's: rank r has stage r, and with several chunks every "
                        "n_ranks-th one after it.",
        REPEATED: "A step comes twice on one rank.",
        MISSING: "Steps are missing: every micro-batch goes forward and backward once on every stage. Count what each phase "
                 "does; together they make n_micro forwards and n_micro backwards.",
        TOO_EARLY: "A backward comes before its own forward on the same rank.",
    }
    return (Symptom("not a row a rank", "Return a list with one list of steps for each rank, rank 0's first.",
                    lambda look: len(rows_of(look)) != shape(look.case).n_ranks),
            *(fault_seen(why, hint, lambda fault, why=why: fault.why == why, shape) for why, hint in hints.items()))


def can_run(shape: Callable[[Case], Shape]) -> Callable[[Look], bool]:
    """A schedule came that has no fault."""

    def matches(look: Look) -> bool:
        rows = rows_of(look)
        return len(rows) == shape(look.case).n_ranks and fault_of(rows, shape(look.case)) is None

    return matches


def peaks_differ(sign: int, shape: Callable[[Case], Shape]) -> Callable[[Look], bool]:
    """More (+1) or less (−1) in flight than should be, on some rank, in a schedule that can run."""
    return lambda look: can_run(shape)(look) and any(
        (count - right) * sign > 0
        for count, right in zip(peaks(rows_of(look)), look.right[0]["in flight at most"], strict=True))
