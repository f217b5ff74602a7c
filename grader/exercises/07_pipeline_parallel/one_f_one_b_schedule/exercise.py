"""1F1B as a table: warm up, one forward and one backward in turn, cool down."""

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
from utils.schedules.faults import NO_SUCH_MICRO, STUCK


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))]
    return size_cases(sizes + [(5, 1), (8, 11), (3, 3)] * grading, "n_stages", "n_micro")


def _reading(case: Case, found):
    return oracle.summary(found, plain_shape(case), WHOLE_TIMES)


def _few(look: Look) -> bool:
    """Fewer micro-batches than the first rank's warm-up has."""
    return look.case.inputs[0]["n_micro"] < look.case.inputs[0]["n_stages"] - 1


def _warm_up_reversed(look: Look) -> bool:
    """Rank 0 begins with one forward, the last rank with the most."""
    rows = found_rows(look)
    first = [next((i for i, step in enumerate(row) if step.kind != "F"), len(row)) for row in rows]
    return len(rows) > 2 and first == sorted(first) and first[0] < first[-1]


def _all_forwards_first(look: Look) -> bool:
    """On every rank, though there are more micro-batches than ranks."""
    rows = ["".join(step.kind for step in row) for row in found_rows(look)]
    return look.case.inputs[0]["n_micro"] > len(rows) > 1 and all(
        row.count("F") == look.case.inputs[0]["n_micro"] and row.rfind("F") < row.find("B") for row in rows)


def _newest_first(look: Look) -> bool:
    """On some rank micro-batches do not go backward in the order in which they went forward."""
    by_kind = [{kind: [step.micro for step in row if step.kind == kind] for kind in "FB"} for row in found_rows(look)]
    return any(row["F"] != row["B"] for row in by_kind if sorted(row["F"]) == sorted(row["B"]))


EXERCISE = Exercise(
    title="1F1B as a table",
    parameters=("n_stages", "n_micro"),
    make_cases=_cases,
    oracle=lambda case: [_reading(case, right_orders.one_f_one_b(**case.inputs[0]))],
    tolerance=1e-9,
    points={VALUES: 2},
    technique=Technique(
        reading=_reading,
        demands=(only_calls(id="communicates", hint="A schedule is data: no message is needed to make one."),),
        symptoms=(
        wrong_number_of_ranks(plain_shape),
        Symptom("GPipe made", "This is GPipe: all micro-batches are in flight at once. After n_stages − 1 − r forwards "
                              "rank r goes forward and backward in turn.",
                _all_forwards_first),
        Symptom("warm-up the wrong way round", "The last rank warms up longest here. It is the first one that must fill all "
                                               "the stages after it: n_stages − 1 − r forwards.", _warm_up_reversed),
        fault_seen("steady phase too long", "Forwards of micro-batches that there are not: after w forwards of warm-up only "
                                            "n_micro − w are left for the steady phase.",
                   lambda fault, look: fault.why == NO_SUCH_MICRO and not _few(look), plain_shape),
        fault_seen("few micro-batches", "With fewer micro-batches than stages the warm-up ends when there are no more: "
                                        "min(n_stages − 1 − r, n_micro).",
                   lambda fault, look: fault.why == NO_SUCH_MICRO and _few(look), plain_shape),
        *fault_symptoms(plain_shape)[1:],
        Symptom("newest first", "Micro-batches should go backward in the order in which they went forward, the oldest "
                                "first, on every rank.", _newest_first),
        fault_seen("deadlock", "The schedule cannot run: a rank waits for a gradient that a later rank cannot give before "
                               "it gets a further forward. Every rank goes forward and backward in turn after its warm-up.",
                   lambda fault, look: fault.why == STUCK, plain_shape),
        Symptom("too many in flight", "It can run, but a rank has more in flight than n_stages − r: its warm-up is too "
                                      "long. In the steady phase a forward comes first, which is one "
                                      "more.", peaks_differ(+1)),
        Symptom("warm-up too short", "It can run, but ranks wait: the warm-up is too short. While the first gradient is on "
                                     "its way to rank r, n_stages − 1 − r forwards fit before the steady phase.",
                peaks_differ(-1)),
    ),
    ),
)
