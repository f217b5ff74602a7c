"""Wrong predictions of what a rank sends under ZeRO-3."""

from tests.mutants import change

CHANGES = (
    change("gathered twice in backward", "3 if", "4 if", "else 2", "else 3"),
    change("backward for free", "3 if reshard_after_forward else 2", "2"),
    change("kept for nothing", "3 if reshard_after_forward else 2", "3"),
    change("once a step", "n_micro * ", ""),
    change("reduced once", "(3 if reshard_after_forward else 2)", "(1 + reshard_after_forward) + 1"),
    change("float32", "/ n_ranks * 2", "/ n_ranks * 4"),
    change("own share sent", " * (n_ranks - 1) / n_ranks", ""),
)
