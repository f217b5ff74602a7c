"""Wrong ways to cut a batch into micro-batches."""

from grader.exercises.references import change

PARTS = "x_BD.split(len(x_BD) // n_micro)"

CHANGES = (
    change("no error", "if len(x_BD) % n_micro:", "if False:", PARTS, "x_BD.chunk(n_micro)"),
    change("sizes not named", "a batch of {len(x_BD)} rows cannot be cut into {n_micro} micro-batches", "not micro-batches"),
    change("number for size", PARTS, "x_BD.split(n_micro)"),
    change("dealt like cards", PARTS, "x_BD[k::n_micro] for k in range(n_micro)"),
    change("columns cut", PARTS, "x_BD.chunk(n_micro, dim=-1)"),
    change("number of pieces", PARTS, "x_BD for _ in range(n_micro)"),
    change("number of pieces", PARTS, "x_BD[k:k + 1] for k in range(n_micro)"),
    change("refused", "if len(x_BD) % n_micro:", "if len(x_BD) % n_micro or n_micro == len(x_BD):"),
    change("another error", "raise ValueError(f", "raise RuntimeError(f"),
    change("shape changed", PARTS, f"part.flatten(1) for part in {PARTS}"),
    change("number of pieces", PARTS, f"{PARTS}[:-1] or [x_BD[:0]]"),
)
