"""Wrong predictions of what a rank sends."""

from tests.mutants import change

PASSES = "(n_micro + 1)"

CHANGES = (
    change("accumulation free", PASSES, "2"),
    change("parameters every time", PASSES, "2 * n_micro"),
    change("parameters forgotten", PASSES, "n_micro"),
    change("float32", "* 2 *", "* 4 *"),
    change("numbers", "* 2 *", "*"),
    change("own share sent", "(n_ranks - 1) / n_ranks * 2", "2.0"),
)
