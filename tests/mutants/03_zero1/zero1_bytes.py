"""Wrong predictions of what a rank holds."""

from tests.mutants import change

BYTES = "(2 + 2 + 12 / n_ranks)"

CHANGES = (
    change("nothing divided", BYTES, "16.0"),
    change("all divided", BYTES, "16 / n_ranks"),
    change("gradients divided", BYTES, "(2 + 14 / n_ranks)"),
    change("master copy whole", BYTES, "(8 + 8 / n_ranks)"),
    change("whole bytes", f"{BYTES} * n_parameters", f"int({BYTES} * n_parameters)"),
)
