"""Wrong ZB-H1 schedules."""

from tests.mutants import change

DUE = "micro >= rank"

CHANGES = (
    change("still whole", "return schedule", "return one_f_one_b_schedule(n_stages, n_micro)"),
    change("weights never", "range(n_done, n_micro)", "range(0)"),
    change("weights before input", DUE, "True", '"F" if kind == "F" else "I"', '"F" if kind == "F" else "W"',
           'Step("W", n_done, stage)', 'Step("I", n_done, stage)'),
    change("nothing put off", DUE, "micro >= 0"),
    change("weights all at the end", DUE, "micro >= n_micro"),
    change("put off on the wrong ranks", DUE, "micro >= min(n_micro - 1, n_stages - 1 - rank)"),
    change("too much in flight", DUE, "micro >= rank + (rank > 0)"),
    change("bubble left", DUE, "micro >= rank - 1"),
)
