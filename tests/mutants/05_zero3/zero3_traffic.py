"""Wrong predictions of what a rank sends under ZeRO-3."""

from tests.mutants import change

CHANGES = (
    change("gathered twice in backward", "3 if", "4 if"),
    change("gradients twice", "3 if", "4 if", "else 2", "else 3"),
    change("kept for the step", "n_micro * (3 if reshard_after_forward else 2)",
           "(3 * n_micro if reshard_after_forward else n_micro + 1)"),
    change("gathered once", "n_micro * (3 if reshard_after_forward else 2)", "(n_micro + 1 + reshard_after_forward)"),
    change("numbers for bytes", "/ n_ranks * 2", "/ n_ranks"),
    change("all ranks' bytes", "(n_ranks - 1) / n_ranks", "(n_ranks - 1)"),
    change("exchanged", "3 if", "2 if", "else 2", "else 3"),
    change("backward for free", "3 if reshard_after_forward else 2", "2"),
    change("kept for nothing", "3 if reshard_after_forward else 2", "3"),
    change("once a step", "n_micro * ", ""),
    change("kept from backward", "n_micro * (3 if reshard_after_forward else 2)", "(2 * n_micro + reshard_after_forward)"),
    change("reduced once", "(3 if reshard_after_forward else 2)", "(1 + reshard_after_forward) + 1"),
    change("float32", "/ n_ranks * 2", "/ n_ranks * 4"),
    change("reduce-scatter whole", "passes_over_all * (n_ranks - 1) / n_ranks",
           "((passes_over_all - n_micro) * (n_ranks - 1) / n_ranks + n_micro)"),
    change("own share sent", " * (n_ranks - 1) / n_ranks", ""),
)
