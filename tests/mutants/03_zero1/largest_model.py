"""Wrong answers to how large a model may be."""

from tests.mutants import change

FITS = "int((device_bytes - other_bytes) // (4 + 12 / n_ranks))"

CHANGES = (
    change("memory pooled", "4 + 12 / n_ranks", "16 / n_ranks"),
    change("nothing divided", "4 + 12 / n_ranks", "16"),
    change("gradients divided", "4 + 12 / n_ranks", "2 + 14 / n_ranks"),
    change("state of 8 bytes", "12 / n_ranks", "8 / n_ranks"),
    change("master copy whole", "4 + 12 / n_ranks", "8 + 8 / n_ranks"),
    change("others forgotten", "(device_bytes - other_bytes)", "device_bytes"),
    change("not rounded", FITS, "(device_bytes - other_bytes) / (4 + 12 / n_ranks)"),
    change("one too many", FITS, "-int(-(device_bytes - other_bytes) // (4 + 12 / n_ranks))"),
)
