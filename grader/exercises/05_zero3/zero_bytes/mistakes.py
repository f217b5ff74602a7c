"""Wrong predictions of what a rank holds at each stage."""

from grader.exercises.references import change

PARTS = "(n_ranks if stage >= first else 1)"
CHANGES = (
    *(change("stages shifted", "stage >= first", other) for other in ("stage + 1 >= first", "stage > first")),
    change("parameters forgotten", "return each", "return (14 / n_ranks if stage == 2 else each)"),
    change("gradients whole", "(2, 2)", "(3, 2)"),
    change("parameters whole", "(3, 2)", "(4, 2)"),
    change("master copy forgotten", "(1, 12)", "(1, 8)"),
    *(change("master copy whole", "(1, 12)", f"(1, 8), ({stage}, 4)") for stage in (3, 4)),
    change("float32 gradients", "(2, 2)", "(2, 4)"),
    *(change("parts exchanged", "(3, 2), (2, 2), (1, 12)", other)
      for other in ("(1, 2), (2, 2), (3, 12)", "(3, 2), (1, 2), (2, 12)")),
    change("own stage only", "stage >= first", "stage == first"),
    change("few digits", "return each * n_parameters", "return (torch.tensor(each) * n_parameters).item()"),
    change("whole bytes", "size /", "size //"),
    *(change("whole bytes", "each * n_parameters", other)
      for other in ("int(each * n_parameters)", "round(each * n_parameters, 2)")),
    *(change("whole bytes", f"size / {PARTS}", f"size * {shard}", "each * n_parameters", "each")
      for shard in (f"(n_parameters // {PARTS})", f"-(-n_parameters // {PARTS})")),
)
