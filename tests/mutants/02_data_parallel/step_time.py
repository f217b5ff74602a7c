"""Wrong times of a step."""

from tests.mutants import change

OVERLAPPED = "compute_s / 3 + max(compute_s * 2 / 3, reduce_s)"
CHANGES = (
    change("compute not divided", "    compute_s /= n_ranks\n", ""),
    change("one phase", "2 * (n_ranks - 1)", "(n_ranks - 1)"),
    change("gradients divided", "gradient_bytes / n_ranks", "gradient_bytes / n_ranks / n_ranks"),
    change("not overlapped", "if not overlapped", "if True"),
    change("always overlapped", "if not overlapped", "if False"),
    change("hidden by the forward", OVERLAPPED, "max(compute_s, reduce_s)"),
    change("hidden for free", OVERLAPPED, "compute_s"),
    change("half and half", OVERLAPPED, "compute_s / 2 + max(compute_s / 2, reduce_s)"),
)
