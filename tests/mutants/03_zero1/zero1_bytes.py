"""Wrong predictions of what a rank holds."""

from tests.mutants import change

BYTES = "(2 + 2 + 12 / n_ranks)"

CHANGES = (
    change("nothing divided", BYTES, "16.0"),
    change("all divided", BYTES, "16 / n_ranks"),
    change("gradients divided", BYTES, "(2 + 14 / n_ranks)"),
    change("master copy whole", BYTES, "(8 + 8 / n_ranks)"),
    change("rounded down", "12 / n_ranks", "12 // n_ranks"),
    change("state of 8 bytes", "12 / n_ranks", "8 / n_ranks"),
    change("2 bytes whole", "2 + 2 +", "2 +"),
    change("gigabytes", "* n_parameters", "* n_parameters / 1e9"),
    change("all ranks", "* n_parameters", "* n_parameters * n_ranks"),
    change("one parameter", "* n_parameters", ""),
    change("whole bytes", f"{BYTES} * n_parameters", f"int({BYTES} * n_parameters)"),
    change("shards rounded up", f"{BYTES} * n_parameters", "float(4 * n_parameters + 12 * -(-n_parameters // n_ranks))"),
)
