"""Wrong predictions of what a rank sends in a step."""

from grader.exercises.references import change

TABLE = "(2, 2, n_micro + 1, 3 * n_micro)"
CHANGES = (
    change("stage 1 twice", TABLE, "(2, 3, n_micro + 1, 3 * n_micro)"),
    change("reduced every time below 2", TABLE, "(2 * n_micro, n_micro + 1, n_micro + 1, 3 * n_micro)"),
    change("reduced every time below 2", TABLE, "(2 * n_micro, 2, n_micro + 1, 3 * n_micro)"),
    change("accumulation free at 2", TABLE, "(2, 2, 2, 3 * n_micro)"),
    change("parameters every time at 2", TABLE, "(2, 2, 2 * n_micro, 3 * n_micro)"),
    change("gradients twice", TABLE, "(2, 2, 2 * n_micro + 1, 3 * n_micro)"),
    change("gradients twice", TABLE, "(2, 2, 2 * n_micro + 1, 4 * n_micro)"),
    change("parameters forgotten at 2", TABLE, "(2, 2, n_micro, 3 * n_micro)"),
    change("backward for free", "3 * n_micro", "2 * n_micro"),
    change("gathered after the update", "3 * n_micro", "3 * n_micro + 1"),
    change("gradients twice", "3 * n_micro", "4 * n_micro"),
    change("once a step at 3", "3 * n_micro", "3"),
    change("once a step at 3", "3 * n_micro", "2 + n_micro"),
    change("once a step at 3", "3 * n_micro", "2 * n_micro + 1"),
    change("float32", "/ n_ranks * 2", "/ n_ranks * 4"),
    change("elements for bytes", "/ n_ranks * 2", "/ n_ranks"),
    change("padding counted", "* 2 * n_parameters", "* 2 * -(-n_parameters // n_ranks) * n_ranks"),
    change("all ranks' bytes", "(n_ranks - 1) / n_ranks", "(n_ranks - 1)"),
    change("own share sent", " * (n_ranks - 1) / n_ranks", ""),
)
