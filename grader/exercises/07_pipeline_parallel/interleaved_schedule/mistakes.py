"""Wrong interleaved schedules."""

from grader.exercises.references import change

WARM_UP = "min(2 * (n_ranks - 1 - rank) + (n_chunks - 1) * n_ranks, len(order))"
TWICE = "2 * (n_ranks - 1 - rank)"

CHANGES = (
    change("micro-batches do not divide", "if n_micro % n_ranks:", "if False:"),
    change("refused", "if n_micro % n_ranks:", "if n_micro % (n_ranks * n_chunks):"),
    change("no schedule", "return schedule",
           "return [[step for step in schedule[stage % n_ranks] if step.stage == stage] "
           "for stage in range(n_ranks * n_chunks)]"),
    change("stages side by side", "chunk * n_ranks + rank", "rank * n_chunks + chunk",
           "(n_chunks - 1 - chunk) * n_ranks + rank", "rank * n_chunks + n_chunks - 1 - chunk"),
    change("warm-up of 1F1B", TWICE, "(1 if n_chunks == 1 else 2) * (n_ranks - 1 - rank)"),
    change("all forward first", WARM_UP, f"len(order) if n_micro == n_ranks else {WARM_UP}"),
    change("one chunk only", "order = [", "n_chunks = 1\n    order = [", TWICE, "(n_ranks - 1 - rank)"),
    change("chunks forward and backward alike", "n_chunks - 1 - chunk", "chunk", WARM_UP, "len(order)"),
    change("chunk by chunk", "range(0, n_micro, n_ranks)", "(0,)", "one in range(n_ranks)]", "one in range(n_micro)]",
           WARM_UP, "len(order)"),
    change("deadlock", "return schedule", 'schedule[-1].sort(key=lambda step: step.kind != "F")\n    return schedule'),
    change("warm-up too long", TWICE, "2 * (n_ranks - rank)"),
    change("waits", TWICE, "(n_ranks - 1 - rank)"),
)
