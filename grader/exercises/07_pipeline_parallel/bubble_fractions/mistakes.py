"""Wrong bubbles."""

from grader.exercises.references import change

OF_ALL = "of_ideal / (1 + of_ideal)"

CHANGES = (
    change("swapped", f"of_ideal, {OF_ALL}", f"{OF_ALL}, of_ideal"),
    change("one too many", "(n_ranks - 1)", "n_ranks"),
    change("chunks forgotten", "(n_chunks * n_micro)", "n_micro"),
    change("chunks divide once", OF_ALL, "(n_ranks - 1) / (n_micro + n_ranks - 1)"),
    change("bubble divided last", OF_ALL, "(n_ranks - 1) / (n_micro + n_ranks - 1) / n_chunks"),
    change("total without the bubble", OF_ALL, "of_ideal"),
    change("one too many", OF_ALL, "(n_ranks - 1) / (n_chunks * n_micro + n_ranks)"),
    change("bubble grows with chunks", "(n_ranks - 1) / (n_chunks * n_micro)", "(n_ranks - 1) * n_chunks / n_micro"),
    change("chunks counted as stages", "(n_ranks - 1)", "(n_ranks * n_chunks - 1)"),
    change("whole numbers", "return of_ideal,", "return (n_ranks - 1) // (n_chunks * n_micro),"),
)
