"""What the exercises that make schedules share: cases by size, and slips that show in any schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.evidence.evidence import RETURNED
from grader.exercises.shared import schedule_oracle as oracle
from grader.judging.exercise import Case, Look, Symptom
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY
from utils.schedules.schedule import Fault, Shape

WHOLE_TIMES = {"F": 1.0, "B": 2.0}


def size_cases(sizes: Sequence[tuple[int, ...]], *names: str) -> list[Case]:
    """One rank, a case a size; names: of the numbers of a size."""
    what = {"n_stages": "stages", "n_micro": "micro-batches", "n_ranks": "ranks", "n_chunks": "chunks"}
    return [Case(", ".join(f"{number} {what[name][:-1] if number == 1 and name != 'n_micro' else what[name]}"
                           for number, name in zip(size, names, strict=True)),
                 (dict(zip(names, size, strict=True)),)) for size in sizes]


def plain_shape(case: Case) -> Shape:
    """One stage a rank, backward in one piece."""
    inputs = case.inputs[0]
    return Shape(inputs["n_stages"], inputs["n_stages"], inputs["n_micro"])


def found_rows(look: Look) -> oracle.Rows:
    """The schedule that was returned.  Raises: TypeError, ValueError if it is none."""
    if look.evidence.ending != RETURNED:
        raise ValueError(look.evidence.ending)
    return oracle.as_rows(look.outputs[0])


def fault_seen(id: str, hint: str, test: Callable[[Fault, Look], bool], shape: Callable[[Case], Shape]) -> Symptom:
    """The returned schedule has a fault for which test(fault, look) holds."""

    def matches(look: Look) -> bool:
        rows = found_rows(look)
        fault = oracle.fault_of(rows, shape(look.case)) if len(rows) == shape(look.case).n_ranks else None
        return fault is not None and test(fault, look)

    return Symptom(id, hint, matches)


def fault_symptoms(shape: Callable[[Case], Shape]) -> tuple[Symptom, ...]:
    """The faults that a rank's own list may have."""
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
    return tuple(fault_seen(why, hint, lambda fault, look, why=why: fault.why == why, shape) for why, hint in hints.items())


def wrong_number_of_ranks(shape: Callable[[Case], Shape]) -> Symptom:
    """The list is not one over ranks."""
    return Symptom("not a row a rank", "Return a list with one list of steps for each rank, rank 0's first.",
                   lambda look: len(found_rows(look)) != shape(look.case).n_ranks)


def peaks_differ(sign: int) -> Callable[[Look], bool]:
    """More (+1) or less (−1) in flight than should be, on some rank, in a schedule that can run."""

    def matches(look: Look) -> bool:
        found, wanted = oracle.peaks(found_rows(look)), look.right[0]["in flight at most"]
        return any((a - b) * sign > 0 for a, b in zip(found, wanted, strict=True))

    return matches
