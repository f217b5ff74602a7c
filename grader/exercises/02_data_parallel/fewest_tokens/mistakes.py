"""Wrong numbers of tokens."""

from grader.exercises.references import change

ALONE = "1 / 3 if overlapped else 1"
NEEDED = "efficiency * reduce_s / (1 - alone * efficiency)"
UP = "math.ceil(compute_s * flops_per_s / (6 * n_parameters))"
CHANGES = (
    change("rounded down", "math.ceil", "math.floor"),
    change("one token too many", "math.ceil", "1 + math.floor"),
    change("not rounded", UP, UP.removeprefix("math.ceil")),
    change("next power of two", f"max(1, {UP})", f"2 ** math.ceil(math.log2(max(1, {UP})))"),
    change("no token", f"max(1, {UP})", UP),
    change("not overlapped", ALONE, "1"),
    change("always overlapped", ALONE, "1 / 3"),
    change("all hidden", NEEDED, f"reduce_s * 3 / 2 if overlapped else {NEEDED}"),
    change("part hidden", NEEDED, f"efficiency * reduce_s * 3 / 2 if overlapped else {NEEDED}"),
    change("hidden by the forward", ALONE, "0 if overlapped else 1"),
    change("forward forgotten", "6 * n_parameters", "4 * n_parameters"),
    change("latency forgotten", "alpha_s + 2", "2"),
    change("gradients in float32", "2 * n_parameters / n_ranks", "4 * n_parameters / n_ranks"),
    change("of all ranks", "compute_s * flops", "n_ranks * compute_s * flops",
           "return max", "return 1.0 * max"),  # floats are compared with a tolerance, and of so many tokens one is rounding
    change("divided by ranks", "compute_s * flops", "compute_s / n_ranks * flops"),
    change("compute of one rank", "(1 - alone * efficiency)", "(1 - alone * efficiency / n_ranks)"),
    change("loss for efficiency", NEEDED, "reduce_s / (1 - efficiency + (2 / 3 if overlapped else 0))"),
    change("loss for efficiency", NEEDED, "(1 - efficiency) * reduce_s / (1 - alone * (1 - efficiency))"),
)
