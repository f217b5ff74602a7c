"""Wrong throughputs."""

from grader.exercises.references import change

STEP, LIMIT = "n_rows / ((n_micro + n_stages - 1) * micro_s)", "micro_rows / micro_s"
KEPT = "min(n_stages, n_micro) * micro_rows"

CHANGES = (
    change("no bubble", STEP, LIMIT),
    change("one too many", "n_micro + n_stages - 1", "n_micro + n_stages"),
    change("one stage at a time", "(n_micro + n_stages - 1)", "(n_micro * n_stages)"),
    change("rows for micro-batches", "n_micro + n_stages - 1", "n_rows + n_stages - 1"),
    change("rows of one micro-batch", STEP, "micro_rows / ((n_micro + n_stages - 1) * micro_s)"),
    change("micro-batches per second", STEP, "n_micro / ((n_micro + n_stages - 1) * micro_s)", LIMIT, "1 / micro_s"),
    change("bubble twice", "n_micro + n_stages - 1", "n_micro + 2 * n_stages - 2"),
    change("seconds per row", STEP, "(n_micro + n_stages - 1) * micro_s / n_rows", LIMIT, "micro_s / micro_rows"),
    change("limit of all stages", LIMIT, f"n_stages * {LIMIT}"),
    change("limit without overlap", LIMIT, f"{LIMIT} / n_stages"),
    change("limit grows with the batch", LIMIT, "n_rows / micro_s"),
    change("in flight in micro-batches", "n_rows, in_flight", "n_micro, in_flight", KEPT, "min(n_stages, n_micro)"),
    change("orders swapped", "n_rows, in_flight", "in_flight, n_rows"),
    change("fewer than stages", "min(n_stages, n_micro)", "n_stages"),
    change("warm-up only", "min(n_stages, n_micro)", "min(n_stages - 1, n_micro)"),
    change("step wrong", STEP, "(1 - (n_stages - 1) / (2 * n_micro + n_stages)) * micro_rows / micro_s"),
    change("limit wrong", LIMIT, f"{LIMIT} / 2"),
    change("GPipe wrong", "n_rows, in_flight", "in_flight, in_flight"),
    change("1F1B wrong", "min(n_stages, n_micro)", "min(n_stages + 1, n_micro)"),
)
