"""ZB-H1: the backward in two pieces, the weights' piece where the bubble was."""

from grader.exercises.shared.right_orders import one_f_one_b, put_off, schedule_exercise, zero_bubble

from .technique import reading

EXERCISE = schedule_exercise(
    title="Zero bubble, ZB-H1 (c)",
    sizes=lambda draw: [(1, 3), (2, 4), (3, 5), (4, 2), (draw.integer(4, 5), draw.integer(6, 9))],
    for_grading=[(5, 1), (8, 16), (3, 3)],
    reading=reading,
    right=zero_bubble,
    slips=(
        ("still whole", "There is a \"B\": here the backward comes in two steps, \"I\" and \"W\".", one_f_one_b),
        ("nothing put off", "Every W follows its own I at once: that is 1F1B again, only with its backward in "
                            "two halves. Put W off, by r micro-batches on rank r.",
         lambda n_stages, n_micro: put_off(n_stages, n_micro, lambda rank: 0)),
        ("weights all at the end", "All W at the end: activations stay in flight until then, as many as GPipe has. Rank r "
                                   "puts W off by r micro-batches only.",
         lambda n_stages, n_micro: put_off(n_stages, n_micro, lambda rank: n_micro)),
        ("put off on the wrong ranks", "The first rank puts off more than the last: but rank r has p − r micro-batches in "
                                       "flight already, and so room for r more.",
         lambda n_stages, n_micro: put_off(n_stages, n_micro, lambda rank: min(n_micro - 1, n_stages - 1 - rank))),
    ),
)
