"""ZB-H1: the backward in two pieces, the weights' piece where the bubble was."""

from collections.abc import Sequence

from grader.exercises.shared.right_orders import made_by, one_f_one_b, put_off, size_cases, zero_bubble
from grader.judging.exercise import VALUES, Case, Draw, Exercise

from .technique import reading


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))]
    return size_cases([*sizes, *([(5, 1), (8, 16), (3, 3)] if grading else [])], "n_stages", "n_micro")


EXERCISE = Exercise(
    title="Zero bubble, ZB-H1 (c)",
    parameters=("n_stages", "n_micro"),
    make_cases=_cases,
    oracle=lambda case: [reading(case, zero_bubble(**case.inputs[0]))],
    tolerance=1e-9,
    points={VALUES: 4},
    optional=True,
    slips=(
        made_by("still whole", "There is a \"B\": here the backward comes in two steps, \"I\" and \"W\".", reading,
                one_f_one_b),
        made_by("nothing put off", "Every W follows its own I at once: that is 1F1B again, only in smaller pieces. Put W "
                                   "off, by r micro-batches on rank r.", reading,
                lambda n_stages, n_micro: put_off(n_stages, n_micro, lambda rank: 0)),
        made_by("weights all at the end", "All W at the end: activations stay in flight until then, as many as GPipe has. "
                                          "Rank r puts W off by r micro-batches only.", reading,
                lambda n_stages, n_micro: put_off(n_stages, n_micro, lambda rank: n_micro)),
        made_by("put off on the wrong ranks", "The first rank puts off more than the last: but rank r has p − r "
                                              "micro-batches in flight already, and so room for r more.", reading,
                lambda n_stages, n_micro: put_off(n_stages, n_micro, lambda rank: min(n_micro - 1, n_stages - 1 - rank))),
    ),
)
