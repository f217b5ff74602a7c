"""Wrong times of a step."""

from grader.exercises.references import change

OVERLAPPED = "compute_s / 3 + max(compute_s * 2 / 3, reduce_s)"
CHANGES = (
    change("compute not divided", "    compute_s /= n_ranks\n", ""),
    change("one phase", "2 * (n_ranks - 1)", "(n_ranks - 1)"),
    change("gradients divided", "gradient_bytes / n_ranks", "gradient_bytes / n_ranks / n_ranks"),
    change("not cut", "gradient_bytes / n_ranks", "gradient_bytes"),
    *(change("latency once", "2 * (n_ranks - 1) * (alpha_s + gradient_bytes / n_ranks * beta_s_per_byte)",
             f"{alphas} * alpha_s + 2 * (n_ranks - 1) * gradient_bytes / n_ranks * beta_s_per_byte") for alphas in (1, 2)),
    change("latency divided", "alpha_s + gradient_bytes", "alpha_s / n_ranks + gradient_bytes"),
    change("divided by beta", "* beta_s_per_byte", "/ beta_s_per_byte"),
    change("milliseconds", "    compute_s /= n_ranks\n", "    compute_s *= 1000 / n_ranks\n",
           "2 * (n_ranks - 1)", "2000 * (n_ranks - 1)"),
    change("the other third", OVERLAPPED, "compute_s * 2 / 3 + max(compute_s / 3, reduce_s)"),
    change("backward not divided", OVERLAPPED, "compute_s / 3 + max(compute_s * n_ranks * 2 / 3, reduce_s)"),
    change("backward not divided", OVERLAPPED, "compute_s + max(0.0, reduce_s - compute_s * n_ranks * 2 / 3)"),
    change("not overlapped", "if not overlapped", "if True"),
    change("always overlapped", "if not overlapped", "if False"),
    change("hidden by the forward", OVERLAPPED, "max(compute_s, reduce_s)"),
    change("hidden for free", OVERLAPPED, "compute_s"),
    change("latency never hidden", OVERLAPPED,
           "compute_s / 3 + 2 * (n_ranks - 1) * alpha_s + max(compute_s * 2 / 3, reduce_s - 2 * (n_ranks - 1) * alpha_s)"),
    change("the other third", OVERLAPPED, "compute_s / 2 + max(compute_s / 2, reduce_s)"),
)
