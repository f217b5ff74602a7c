"""GPipe as a table: on every rank all forwards, then all backwards."""

from __future__ import annotations

from collections.abc import Sequence

from grader.exercises.shared import right_orders
from grader.exercises.shared import schedule_oracle as oracle
from grader.exercises.shared.generators import (
    WHOLE_TIMES,
    fault_seen,
    fault_symptoms,
    found_rows,
    peaks_differ,
    plain_shape,
    size_cases,
    wrong_number_of_ranks,
)
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from utils.schedules.faults import STUCK


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 2), (3, 5), (4, 2), (draw.integer(3, 5), draw.integer(6, 9))]
    return size_cases(sizes + [(5, 1), (8, 11)] * grading, "n_stages", "n_micro")


def _reading(case: Case, found):
    return oracle.summary(found, plain_shape(case), WHOLE_TIMES)


def _same_everywhere(look: Look) -> bool:
    """Every rank has the list of rank 0, stages and all."""
    rows = found_rows(look)
    return len(rows) > 1 and all(row == rows[0] for row in rows)


def _in_turn(look: Look) -> bool:
    """The later the rank, the earlier its first backward: after one forward on the last, one for each rank on the first."""
    rows = [[step.kind for step in row] for row in found_rows(look)]
    return look.case.inputs[0]["n_micro"] > len(rows) > 2 and [
        row.index("B") if "B" in row else 0 for row in rows] == list(range(len(rows), 0, -1))


EXERCISE = Exercise(
    title="GPipe as a table",
    parameters=("n_stages", "n_micro"),
    make_cases=_cases,
    oracle=lambda case: [_reading(case, right_orders.gpipe(**case.inputs[0]))],
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        reading=_reading,
        demands=(only_calls(id="communicates", hint="A schedule is data: no message is needed to make one."),),
        symptoms=(
        Symptom("one row for each micro-batch", "The rows are micro-batches; they should be ranks: for each rank the steps "
                                                "of all micro-batches.",
                lambda look: look.case.inputs[0]["n_micro"] != look.case.inputs[0]["n_stages"] and len(
                    found_rows(look)) == look.case.inputs[0]["n_micro"]),
        wrong_number_of_ranks(plain_shape),
        Symptom("stage forgotten", "Every rank has the same steps. Rank r works on stage r: its steps say so.",
                _same_everywhere),
        Symptom("1F1B made", "This is 1F1B. GPipe does all forwards before its first backward.",
                _in_turn),
        *fault_symptoms(plain_shape),
        fault_seen("orders do not fit", "The schedule deadlocks or waits: the backwards should come in the same order on "
                                        "all ranks.", lambda fault, look: fault.why == STUCK, plain_shape),
        Symptom("backward begins early", "A rank has fewer micro-batches in flight than n_micro: in GPipe no backward comes "
                                         "before the last forward of the rank.", peaks_differ(-1)),
        Symptom("waits", "The schedule can run but takes longer than it must: the backwards should come in the same order "
                         "on all ranks.", lambda look: bool(found_rows(look))),
    ),
    ),
)
