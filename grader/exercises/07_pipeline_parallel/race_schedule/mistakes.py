"""Slow or wrong schedules in the race."""

from grader.exercises.references import change

KEPT, WARM_UP = "range(n_stages, most + 1)", "(kept - 1) * (n_stages - 1 - rank) // (n_stages - 1)"
DELAY = "delay = kept - 1 - warm_up"

CHANGES = (
    change("bubble left", KEPT, "[n_stages]", DELAY, "delay = 0"),
    change("too much in flight", WARM_UP, "n_micro", DELAY, "delay = 0"),
    change("too much in flight", KEPT, "[2 * n_stages - 1]"),
    change("bar of ZB-H1", DELAY, "delay = max(0, kept - 2 - warm_up)"),
    change("bar with more memory", KEPT, "[n_stages]"),
    change("still whole", "return min(", "return one_f_one_b_schedule(n_stages, n_micro)\n    return min("),
    change("missing", "return min(", "return [[] for _ in range(n_stages)]\n    return min("),
    change("bubble left", WARM_UP, "0", DELAY, "delay = 0"),
)

EQUIVALENT = {
    "schedule.append(row + weights[max(0, n_micro - delay):]) | 0 → (-1)":
        "Rank 0 ends last, and has no delay: where others would lack a W, an order with less in flight is as quick, and is "
        "taken first.",
}
