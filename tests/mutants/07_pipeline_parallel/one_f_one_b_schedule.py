"""Wrong tables of 1F1B."""

from tests.mutants import mutant
from utils.schedules.schedule import Step


def _made(n_stages, n_micro, first_of, steady=None, backward_of=lambda micro, first: micro):
    rows = []
    for stage in range(n_stages):
        first = first_of(stage)
        steps = [Step("F", micro, stage) for micro in range(first)]
        turns = n_micro - first if steady is None else steady
        for micro in range(turns):
            steps += [Step("F", first + micro, stage), Step("B", backward_of(micro, first), stage)]
        rows.append(steps + [Step("B", micro, stage) for micro in range(turns, n_micro)])
    return rows


@mutant("GPipe made")
def all_forwards_first(n_stages, n_micro):
    return [[Step(kind, micro, stage) for kind in "FB" for micro in range(n_micro)] for stage in range(n_stages)]


@mutant("warm-up the wrong way round")
def by_rank(n_stages, n_micro):
    return _made(n_stages, n_micro, lambda stage: min(stage, n_micro))


@mutant("steady phase too long")
def all_in_turn(n_stages, n_micro):
    return _made(n_stages, n_micro, lambda stage: min(n_stages - 1 - stage, n_micro), steady=n_micro)


@mutant("few micro-batches")
def warm_up_of_more_than_there_are(n_stages, n_micro):
    return _made(n_stages, n_micro, lambda stage: n_stages - 1 - stage)


@mutant("missing")
def no_cool_down(n_stages, n_micro):
    rows = _made(n_stages, n_micro, lambda stage: min(n_stages - 1 - stage, n_micro))
    return [row[:len(row) - min(n_stages - 1 - stage, n_micro)] for stage, row in enumerate(rows)]


@mutant("deadlock")
def last_rank_waits_for_all(n_stages, n_micro):
    rows = _made(n_stages, n_micro, lambda stage: min(n_stages - 1 - stage, n_micro))
    rows[-1].sort(key=lambda step: step.kind != "F")
    return rows


@mutant("newest first")
def newest_first(n_stages, n_micro):
    rows = []
    for stage in range(n_stages):
        first, alive, steps = min(n_stages - 1 - stage, n_micro), [], []
        for micro in range(n_micro):
            steps.append(Step("F", micro, stage))
            alive.append(micro)
            if micro >= first:
                steps.append(Step("B", alive.pop(), stage))
        rows.append(steps + [Step("B", alive.pop(), stage) for _ in range(len(alive))])
    return rows


@mutant("too many in flight")
def one_more_warm_up(n_stages, n_micro):
    return _made(n_stages, n_micro, lambda stage: min(n_stages - stage, n_micro))


@mutant("warm-up too short")
def one_less_warm_up(n_stages, n_micro):
    return _made(n_stages, n_micro, lambda stage: max(0, min(n_stages - 2 - stage, n_micro)))
