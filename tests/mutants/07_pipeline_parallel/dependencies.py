"""Wrong answers to what a step waits for."""

from tests.mutants import mutant
from utils.schedules.schedule import Step

from .right import needed


@mutant("stages reversed")
def other_way(step, n_stages):
    kind, micro, stage = step
    if kind == "F":
        return [Step("F", micro, stage + 1)] if stage < n_stages - 1 else []
    if kind == "W":
        return [Step("I", micro, stage)]
    return [Step("F", micro, stage)] + ([Step(kind, micro, stage - 1)] if stage > 0 else [])


@mutant("own forward forgotten")
def gradient_only(step, n_stages):
    return [need for need in needed(step, n_stages) if step.kind == "F" or need.kind != "F"]


@mutant("ends of the pipeline")
def endless(step, n_stages):
    kind, micro, stage = step
    if kind == "F":
        return [Step("F", micro, stage - 1)]
    return [Step("I", micro, stage)] if kind == "W" else [Step("F", micro, stage), Step(kind, micro, stage + 1)]


@mutant("weights first")
def weights_then_input(step, n_stages):
    kind, micro, stage = step
    if kind == "W":
        return [Step("F", micro, stage)]
    return needed(step, n_stages) + [Step("W", micro, stage)] * (kind == "I")


@mutant("weights wait for weights")
def weights_like_backward(step, n_stages):
    kind, micro, stage = step
    if kind == "W":
        return [Step("F", micro, stage)] + ([Step("W", micro, stage + 1)] if stage < n_stages - 1 else [])
    return needed(step, n_stages)


@mutant("waits for the weights")
def both_halves(step, n_stages):
    kind, micro, stage = step
    return needed(step, n_stages) + [Step("W", micro, stage + 1)] * (kind == "I" and stage < n_stages - 1)


@mutant("kinds mixed")
def gradient_from_b(step, n_stages):
    return [need._replace(kind="B") if (step.kind, need.kind) == ("I", "I") else need for need in needed(step, n_stages)]


@mutant("one after another")
def in_turn(step, n_stages):
    return needed(step, n_stages) + [step._replace(micro=step.micro - 1)] * (step.micro > 0)


@mutant("needs of needs")
def all_the_way(step, n_stages):
    found = []
    for need in needed(step, n_stages):
        found += [one for one in [need, *all_the_way(need, n_stages)] if one not in found]
    return found
