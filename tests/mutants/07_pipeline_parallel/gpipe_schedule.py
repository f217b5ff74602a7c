"""Wrong tables of GPipe."""

from tests.mutants import change

ROWS = "for micro in range(n_micro)] for stage in range(n_stages)]"

CHANGES = (
    change("one row for each micro-batch", ROWS, "for stage in range(n_stages)] for micro in range(n_micro)]"),
    change("not a row a rank", ROWS, "for micro in range(n_micro)] for stage in range(n_stages + n_micro)]"),
    change("stage forgotten", "Step(kind, micro, stage)", "Step(kind, micro, 0)"),
    change("1F1B made", "return ", "return one_f_one_b_schedule(n_stages, n_micro) or "),
    change("no such micro-batch", "range(n_micro)", "range(1, n_micro + 1)"),
    change("missing", "range(n_micro)", 'range(n_micro - (kind == "B"))'),
    change("too early", '"FB"', '"BF"'),
    change("backward begins early", "return ", "rows = ",
           ROWS, f"{ROWS}\n    return rows[:-1] + [sorted(rows[-1], key=lambda step: step.micro)]"),
    change("waits", "range(n_micro)", 'range(n_micro)[::-1 if kind == "B" and stage % 2 else 1]'),
    change("an iterator for a list", "return [[Step", "return [iter([Step", ROWS, ROWS.replace("]", "])", 1)),
    change("no schedule", "Step(kind, micro, stage)", 'f"{kind}{micro}"'),
)
