"""Wrong predictions of what a rank sends."""

from tests.mutants import change

PASSES = "(n_micro + 1)"

CHANGES = (
    change("accumulation free", PASSES, "2"),
    change("parameters every time", PASSES, "2 * n_micro"),
    change("parameters forgotten", PASSES, "n_micro"),
    change("all-reduced every time", PASSES, "(2 * n_micro + 1)"),
    change("rounded down", "return (n_micro + 1) * one_pass",
           "return (n_micro + 1) * (n_ranks - 1) // n_ranks * 2 * n_parameters"),
    change("rounded to whole bytes", "return (n_micro + 1) * one_pass", "return (n_micro + 1) * (one_pass // 1)"),
    change("padding counted", "return (n_micro + 1) * one_pass",
           "return (n_micro + 1) * (n_ranks - 1) * 2 * -(-n_parameters // n_ranks)"),
    change("not divided", "(n_ranks - 1) / n_ranks", "(n_ranks - 1)"),
    change("one piece sent", "(n_ranks - 1) / n_ranks", "1 / n_ranks"),
    change("float32", "* 2 *", "* 4 *"),
    change("numbers", "* 2 *", "*"),
    change("share gathered once", "(n_micro + 1) * one_pass", "n_micro * one_pass + 2 * n_parameters / n_ranks"),
    change("own share sent", "(n_ranks - 1) / n_ranks * 2", "2.0"),
)
