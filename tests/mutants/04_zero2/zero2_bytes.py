"""Wrong predictions of what a rank holds."""

from tests.mutants import change

BYTES = "(2 + 14 / n_ranks)"

CHANGES = (
    change("master copy whole", BYTES, "(6 + 10 / n_ranks)"),
    change("parameters forgotten", BYTES, "(14 / n_ranks)"),
    change("gradients whole", BYTES, "(4 + 12 / n_ranks)"),
    change("rounded down", "14 / n_ranks", "14 // n_ranks"),
    change("state of 8 bytes", "14 / n_ranks", "10 / n_ranks"),
    change("gradients in float32", "14 / n_ranks", "16 / n_ranks"),
    change("gradients forgotten", "14 / n_ranks", "12 / n_ranks"),
    change("gigabytes", "* n_parameters", "* n_parameters / 1e9"),
    change("all ranks", "* n_parameters", "* n_parameters * n_ranks"),
    change("one parameter", "* n_parameters", ""),
    change("nothing divided", BYTES, "16.0"),
    change("state whole", BYTES, "(14 + 2 / n_ranks)"),
    change("whole bytes", f"{BYTES} * n_parameters", f"int({BYTES} * n_parameters)"),
    change("shards rounded up", f"{BYTES} * n_parameters", "float(2 * n_parameters + 14 * -(-n_parameters // n_ranks))"),
)
