"""Wrong answers to what a step waits for."""

from tests.mutants import change, mutant
from tests.notebooks import functions_of

OWN, AFTER = 'needed = [Step("F", micro, stage)]', "needed.append(Step(kind, micro, stage + 1))"
OF_WEIGHTS = 'return [Step("I", micro, stage)]'

CHANGES = (
    change("stages reversed", "stage - 1)] if stage > 0", "stage + 1)] if stage < n_stages - 1",
           f"if stage < n_stages - 1:\n        {AFTER}",
           "if stage > 0:\n        needed.append(Step(kind, micro, stage - 1))"),
    change("own forward forgotten", OWN, "needed = []"),
    change("ends of the pipeline", " if stage > 0 else []", "", "if stage < n_stages - 1:", "if True:"),
    change("weights first", OF_WEIGHTS, 'return [Step("F", micro, stage)]', OWN, f"""{OWN}
    if kind == "I":
        needed.append(Step("W", micro, stage))"""),
    change("weights wait for weights", OF_WEIGHTS,
           'return [Step("F", micro, stage)] + ([Step("W", micro, stage + 1)] if stage < n_stages - 1 else [])'),
    change("waits for the weights", AFTER, f"""{AFTER}
        if kind == "I":
            needed.append(Step("W", micro, stage + 1))"""),
    change("kinds mixed", AFTER, 'needed.append(Step("B", micro, stage + 1))'),
    change("other side", "stage - 1)] if stage > 0", "stage + 1)] if stage < n_stages - 1"),
    change("no such stage", "if stage < n_stages - 1:", "if True:"),
    change("another micro-batch", OWN, 'needed = [Step("F", micro, stage)] + [Step(kind, micro - 1, stage)] * (micro > 0)'),
    change("indirect needs too", OWN, 'needed = [Step("F", micro, s) for s in range(stage + 1)]'),
    change("W alone", OF_WEIGHTS, 'return [Step("F", micro, stage)]'),
    change("I alone", OWN, 'needed = [Step("F", micro, stage)] if kind == "B" else []'),
    change("a need is missing", AFTER, "pass"),
    change("too many needs", OWN, 'needed = [Step("F", micro, stage)] * 2'),
    change("no list", "return needed", "return iter(needed)"),
    change("None for a list", "return needed", "return needed if kind == 'B' else None"),
)

needs = functions_of("solutions", "07_pipeline_parallel")["dependencies"]


@mutant("one after another")
def in_turn(step, n_stages):
    return needs(step, n_stages) + ([step._replace(micro=step.micro - 1)] if step.micro > 0 else [])


@mutant("needs of needs")
def all_the_way(step, n_stages):
    return list({below for need in needs(step, n_stages) for below in [need, *all_the_way(need, n_stages)]})
