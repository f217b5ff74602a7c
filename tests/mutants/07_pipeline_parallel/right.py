"""What wrong solutions have right."""

from utils.schedules.schedule import Step


def needed(step, n_stages):
    kind, micro, stage = step
    if kind == "F":
        return [Step("F", micro, stage - 1)] if stage > 0 else []
    if kind == "W":
        return [Step("I", micro, stage)]
    return [Step("F", micro, stage)] + ([Step(kind, micro, stage + 1)] if stage < n_stages - 1 else [])
