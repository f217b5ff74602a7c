"""1F1B as a table: warm up, one forward and one backward in turn, cool down."""

from collections.abc import Sequence

from grader.exercises.shared.right_orders import gpipe, in_turn, made_by, one_f_one_b, size_cases, warm_up
from grader.exercises.technique.generators import plain_reading
from grader.exercises.technique.schedules import Rows
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.schedules.schedule import Step


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))]
    return size_cases([*sizes, *([(5, 1), (8, 11), (3, 3)] if grading else [])], "n_stages", "n_micro")


def _steady_for_all(n_stages: int, n_micro: int) -> Rows:
    """As many turns as there are micro-batches, after the warm-up."""
    rows = one_f_one_b(n_stages, n_micro)
    return [row + [Step("F", n_micro + k, stage) for k in range(warm_up(n_stages, n_micro, stage))]
            for stage, row in enumerate(rows)]


EXERCISE = Exercise(
    title="1F1B as a table",
    parameters=("n_stages", "n_micro"),
    make_cases=_cases,
    oracle=lambda case: [plain_reading(case, one_f_one_b(**case.inputs[0]))],
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        made_by("GPipe made", "This is GPipe: all micro-batches are in flight at once. After n_stages − 1 − r forwards "
                              "rank r goes forward and backward in turn.", plain_reading, gpipe),
        made_by("warm-up the wrong way round", "The last rank warms up longest here. It is the first one that must fill all "
                                               "the stages after it: n_stages − 1 − r forwards.", plain_reading,
                lambda n_stages, n_micro: in_turn(n_stages, n_micro, lambda p, m, stage: min(stage, m))),
        made_by("few micro-batches", "With fewer micro-batches than stages the warm-up ends when there are no more: "
                                     "min(n_stages − 1 − r, n_micro).", plain_reading,
                lambda n_stages, n_micro: in_turn(n_stages, n_micro, lambda p, m, stage: p - 1 - stage)),
        made_by("steady phase too long", "Forwards of micro-batches that there are not: after w forwards of warm-up only "
                                         "n_micro − w are left for the steady phase.", plain_reading, _steady_for_all),
    ),
)
