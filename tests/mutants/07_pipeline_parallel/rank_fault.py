"""Wrong searches of one rank's list."""

from tests.mutants import change

ELSEWHERE, REPEATED = "return Fault(rank, step, NOT_THIS_RANKS)", "return Fault(rank, step, REPEATED)"
BEFORE = "need not in steps[:position]"
LOOP = "for position, step in enumerate(steps):"
KIND, MARK = "return Fault(rank, step, UNKNOWN_KIND)", "### BEGIN SOLUTION"

CHANGES = (
    change("stages of a rank", "step.stage not in stages", "step.stage != rank"),
    change("other ranks' steps wanted", f"need.stage in stages and {BEFORE}", BEFORE),
    change("repeats not seen", "if step in steps[:position]:", "if False:"),
    change("missing not seen", "if step not in steps:", "if False:"),
    change("missing in another order", "for stage in stages for micro in range(shape.n_micro) for kind in shape.kinds",
           "for kind in shape.kinds for stage in stages for micro in range(shape.n_micro)"),
    change("order not seen", BEFORE, "False"),
    change("micro-batch not checked", "if step.micro not in range(shape.n_micro):", "if False:"),
    change("unknown kind overlooked", "if step.kind not in shape.kinds:", "if False:"),
    change("stage not checked", "if step.stage not in stages:", "if False:"),
    change("one search for all", "for step in steps:", LOOP, f"{ELSEWHERE}\n    {MARK}\n    {LOOP}", ELSEWHERE, REPEATED,
           f"""{REPEATED}
        if any(need.stage in stages and {BEFORE} for need in dependencies(step, shape.n_stages)):
            return Fault(rank, step, TOO_EARLY)"""),
    change("too early, of another step", "return Fault(rank, step, TOO_EARLY)",
           "return Fault(rank, next(n for n in dependencies(step, shape.n_stages) if n not in steps[:position]), "
           "TOO_EARLY)"),
    change("repeated, of another step", "if step in steps[:position]:", "if steps.count(step) > 1:"),
    change("first search in pieces", KIND, f"{KIND}\n    for step in steps:"),
    change("not this rank's stage overlooked", "step.stage not in stages", "step.stage % shape.n_ranks != rank"),
    change("no such micro-batch overlooked", "step.micro not in range(shape.n_micro)", "step.micro >= shape.n_micro"),
    change("too early overlooked", "need.stage in stages and", "need.stage == step.stage and"),
    change("missing overlooked", "for kind in shape.kinds)", "for kind in 'F')"),
)
