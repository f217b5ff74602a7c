"""Wrong tables of 1F1B."""

from grader.exercises.references import change

WARM_UP = "min(n_stages - 1 - stage, n_micro)"

CHANGES = (
    change("GPipe made", WARM_UP, "n_micro"),
    change("warm-up the wrong way round", WARM_UP, "min(stage, n_micro)"),
    change("no such micro-batch", "in range(n_micro - warm_up):", "in range(n_micro):"),
    change("no such micro-batch", WARM_UP, "n_stages - 1 - stage"),
    change("missing", "range(n_micro - warm_up, n_micro)", "range(0)"),
    change("deadlock", "return schedule", 'schedule[-1].sort(key=lambda step: step.kind != "F")\n    return schedule'),
    change("newest first", 'Step("B", micro, stage)]\n', 'Step("B", warm_up + micro, stage)]\n',
           "range(n_micro - warm_up, n_micro)", "reversed(range(warm_up))"),
    change("too many in flight", WARM_UP, "min(n_stages - stage, n_micro)"),
    change("warm-up too short", WARM_UP, "max(0, min(n_stages - 2 - stage, n_micro))"),
)
