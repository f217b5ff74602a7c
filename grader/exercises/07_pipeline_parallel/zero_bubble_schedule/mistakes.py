"""Wrong ZB-H1 schedules."""

from grader.exercises.references import change

DUE = "micro >= rank"

CHANGES = (
    change("still whole", "return schedule", "return one_f_one_b_schedule(n_stages, n_micro)"),
    change("missing", "range(n_done, n_micro)", "range(0)"),
    change("too early", DUE, "True", '"F" if kind == "F" else "I"', '"F" if kind == "F" else "W"',
           'Step("W", n_done, stage)', 'Step("I", n_done, stage)'),
    change("deadlock", "return schedule", 'schedule[-1].sort(key=lambda step: step.kind != "F")\n    return schedule'),
    change("nothing put off", DUE, "micro >= 0"),
    change("weights all at the end", DUE, "micro >= n_micro"),
    change("put off on the wrong ranks", DUE, "micro >= min(n_micro - 1, n_stages - 1 - rank)"),
    change("too much in flight", DUE, "micro >= rank + (rank > 0)"),
    change("bubble left", DUE, "micro >= rank - 1"),
)
