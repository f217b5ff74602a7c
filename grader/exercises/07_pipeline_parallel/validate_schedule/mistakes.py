"""Wrong explanations of schedules."""

from grader.exercises.references import change

FILLED_UP = "schedule = [*schedule, *[[]] * (shape.n_ranks - len(schedule))]"
STANDS = "        if steps:\n            return Fault(rank, steps[0], STUCK)"
CHANGES_IN_FLIGHT = '{"F": 1, "I": 0}.get(step.kind, -1)'

CHANGES = (
    change("rank without a list", FILLED_UP, "schedule = [schedule[rank] for rank in range(shape.n_ranks)]"),
    change("ranks without a list pass", FILLED_UP, "if len(schedule) < shape.n_ranks:\n        return None"),
    change("as many stages as ranks", "shape.n_stages", "shape.n_ranks"),
    change("endless", "while moved:", "while any(waiting):"),
    change("own fault not seen", "if fault := rank_fault(steps, rank, shape, dependencies):", "if fault := None:"),
    change("deadlock not seen", STANDS, "        pass"),
    change("too many not seen", "if limits else []", "if False else []"),
    change("another step stuck", "in enumerate(waiting)", "in reversed([*enumerate(waiting)])"),
    change("limit is allowed", "in_flight > limits[rank]", "in_flight >= limits[rank]"),
    change("too many of too little", CHANGES_IN_FLIGHT, 'int(step.kind == "F")'),
    change("gone at I", CHANGES_IN_FLIGHT, '{"F": 1, "W": 0}.get(step.kind, -1)'),
    change("stuck before memory", STANDS, "        pass", "    return None",
           "    return next((Fault(rank, steps[0], STUCK) for rank, steps in enumerate(waiting) if steps), None)"),
    change("stuck too soon", "while moved:", "for _ in range(2):"),
    change("another step stuck", "return Fault(rank, steps[0], STUCK)", "return Fault(rank, steps[-1], STUCK)"),
    change("ranks without a list pass", FILLED_UP, "pass"),
    change("lists too many pass", "in enumerate(schedule):", "in enumerate(schedule[:shape.n_ranks]):"),
    change("too many of too little", "limits[rank]", "min(limits)"),
    change("another step too many", "        counts = itertools",
           "        own = [s for s in steps if s.stage < shape.n_ranks]\n"
           "        steps = own if sum(s.kind == 'F' for s in own) < len(steps) / 2 else steps\n        counts = itertools"),
    change("own fault not seen", "if fault := rank_fault(steps, rank, shape, dependencies):",
           "if (fault := rank_fault(steps, rank, shape, dependencies)) and fault.why != 'repeated':"),
)
