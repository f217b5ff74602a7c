"""1F1B as a table: warm up, one forward and one backward in turn, cool down."""

from grader.exercises.shared.right_orders import gpipe, in_turn, one_f_one_b, schedule_exercise, warm_up
from grader.exercises.technique.generators import PLAIN
from utils.schedules.schedule import Schedule, Step


def _steady_for_all(n_stages: int, n_micro: int) -> Schedule:
    """As many turns as there are micro-batches, after the warm-up."""
    rows = one_f_one_b(n_stages, n_micro)
    return [row + [Step("F", n_micro + k, stage) for k in range(warm_up(n_stages, n_micro, stage))]
            for stage, row in enumerate(rows)]


EXERCISE = schedule_exercise(
    title="1F1B as a table",
    sizes=lambda draw: [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))],
    for_grading=[(5, 1), (8, 11), (3, 3)],
    reading=PLAIN.reading,
    right=one_f_one_b,
    points=2,
    slips=(
        ("GPipe made", "This is GPipe: all micro-batches are in flight at once. After n_stages − 1 − r forwards rank r goes "
                       "forward and backward in turn.", gpipe),
        ("warm-up the wrong way round", "The last rank warms up longest here. It is the first one that must fill all the "
                                        "stages after it: n_stages − 1 − r forwards.",
         lambda n_stages, n_micro: in_turn(n_stages, n_micro, lambda p, m, stage: min(stage, m))),
        ("few micro-batches", "With fewer micro-batches than stages the warm-up ends when there are no more: "
                              "min(n_stages − 1 − r, n_micro).",
         lambda n_stages, n_micro: in_turn(n_stages, n_micro, lambda p, m, stage: p - 1 - stage)),
        ("steady phase too long", "Forwards of micro-batches that there are not: after w forwards of warm-up only "
                                  "n_micro − w are left to be done in turn with backwards.", _steady_for_all),
    ),
)
