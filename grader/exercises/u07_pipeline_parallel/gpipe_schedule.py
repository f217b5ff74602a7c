"""GPipe as a table: on every rank all forwards, then all backwards."""

from __future__ import annotations

from collections.abc import Sequence

from grader.demands import only_calls
from grader.exercise import VALUES, Case, Draw, Exercise, Look, Symptom
from grader.exercises.u07_pipeline_parallel import oracle
from grader.exercises.u07_pipeline_parallel.generators import (
    WHOLE_TIMES,
    fault_seen,
    fault_symptoms,
    found_rows,
    made_as,
    peaks_differ,
    plain_shape,
    size_cases,
    wrong_number_of_ranks,
)
from utils.faults import STUCK


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 2), (3, 5), (4, 2), (draw.integer(3, 5), draw.integer(6, 9))]
    return size_cases(sizes + [(5, 1), (8, 11)] * grading, "n_stages", "n_micro")


def _reading(case: Case, found):
    return oracle.summary(found, plain_shape(case), WHOLE_TIMES)


def _same_everywhere(look: Look) -> bool:
    """Every rank has the list of rank 0, stages and all."""
    rows = found_rows(look)
    return len(rows) > 1 and all(row == rows[0] for row in rows)


EXERCISE = Exercise(
    id="gpipe_schedule",
    unit="07_pipeline_parallel",
    title="GPipe as a table",
    parameters=("n_stages", "n_micro"),
    make_cases=_cases,
    oracle=lambda case: [_reading(case, oracle.gpipe(**case.inputs[0]))],
    adapter="call_generator",
    reading=_reading,
    tolerance=1e-9,
    points={VALUES: 2},
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
                lambda look: look.case.inputs[0]["n_micro"] > look.case.inputs[0]["n_stages"] > 2 and made_as(
                    lambda look: oracle.one_f_one_b(**look.case.inputs[0]))(look)),
        *fault_symptoms(plain_shape),
        fault_seen("orders do not fit", "The schedule deadlocks or waits: the backwards should come in the same order on "
                                        "all ranks.", lambda fault, look: fault.why == STUCK, plain_shape),
        Symptom("backward begins early", "A rank has fewer micro-batches in flight than n_micro: in GPipe no backward comes "
                                         "before the last forward of the rank.", peaks_differ(-1)),
        Symptom("waits", "The schedule can run but takes longer than it must: the backwards should come in the same order "
                         "on all ranks.", lambda look: bool(found_rows(look))),
    ),
)
