"""Wrong answers to what a step waits for."""

from grader.exercises.references import change

OWN, AFTER = 'needed = [Step("F", micro, stage)]', "needed.append(Step(kind, micro, stage + 1))"
OF_WEIGHTS = 'return [Step("I", micro, stage)]'
BEFORE = " + [Step(kind, micro - 1, stage)] * (micro > 0)"

CHANGES = (
    change("other side", "stage - 1)] if stage > 0", "stage + 1)] if stage < n_stages - 1",
           f"if stage < n_stages - 1:\n        {AFTER}",
           "if stage > 0:\n        needed.append(Step(kind, micro, stage - 1))"),
    change("own forward forgotten", OWN, "needed = []"),
    change("no such stage", " if stage > 0 else []", "", "if stage < n_stages - 1:", "if True:"),
    change("weights first", OF_WEIGHTS, 'return [Step("F", micro, stage)]', OWN, f"""{OWN}
    if kind == "I":
        needed.append(Step("W", micro, stage))"""),
    change("W alone", OF_WEIGHTS,
           'return [Step("F", micro, stage)] + ([Step("W", micro, stage + 1)] if stage < n_stages - 1 else [])'),
    change("I alone", AFTER, f"""{AFTER}
        if kind == "I":
            needed.append(Step("W", micro, stage + 1))"""),
    change("kinds mixed", AFTER, 'needed.append(Step("B", micro, stage + 1))'),
    change("other side", "stage - 1)] if stage > 0", "stage + 1)] if stage < n_stages - 1"),
    change("no such stage", "if stage < n_stages - 1:", "if True:"),
    change("another micro-batch", OWN, OWN + BEFORE),
    change("indirect needs too", OWN, 'needed = [Step("F", micro, s) for s in range(stage + 1)]'),
    change("W alone", OF_WEIGHTS, 'return [Step("F", micro, stage)]'),
    change("I alone", OWN, 'needed = [Step("F", micro, stage)] if kind == "B" else []'),
    change("a need is missing", AFTER, "pass"),
    change("too many needs", OWN, 'needed = [Step("F", micro, stage)] * 2'),
    change("no list", "return needed", "return iter(needed)"),
    change("None for a list", "return needed", "return needed if kind == 'B' else None"),
    change("another micro-batch", "if stage > 0 else []", f"if stage > 0 else []{BEFORE}"),
    change("indirect needs too", "def dependencies(", """def dependencies(step, n_stages):
    return list({below for need in _direct(step, n_stages) for below in [need, *dependencies(need, n_stages)]})


def _direct("""),
)
