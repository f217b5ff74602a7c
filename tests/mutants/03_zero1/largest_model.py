"""Wrong answers to how large a model may be."""

from tests.mutants import change

FITS = "n_ranks * (device_bytes - other_bytes) // (4 * n_ranks + 12)"

CHANGES = (
    change("memory pooled", "(4 * n_ranks + 12)", "16"),
    change("nothing divided", "(4 * n_ranks + 12)", "(16 * n_ranks)"),
    change("gradients divided", "(4 * n_ranks + 12)", "(2 * n_ranks + 14)"),
    change("state of 8 bytes", "+ 12", "+ 8"),
    change("master copy whole", "(4 * n_ranks + 12)", "(8 * n_ranks + 8)"),
    change("others forgotten", "(device_bytes - other_bytes)", "device_bytes"),
    change("not rounded", "//", "/"),
    change("one too many", FITS, "-(-n_ranks * (device_bytes - other_bytes) // (4 * n_ranks + 12))"),
    change("a multiple of n", FITS, f"{FITS} // n_ranks * n_ranks"),
)
