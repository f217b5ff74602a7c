"""Wrong tables of GPipe."""

from tests.mutants import mutant
from utils.schedules.schedule import Step


@mutant("one row for each micro-batch")
def rows_are_micro_batches(n_stages, n_micro):
    return [[Step(kind, micro, stage) for kind in "FB" for stage in range(n_stages)] for micro in range(n_micro)]


@mutant("not a row a rank")
def one_long_list(n_stages, n_micro):
    return [[Step(kind, micro, stage) for stage in range(n_stages) for kind in "FB" for micro in range(n_micro)]] * (
        n_micro + n_stages)


@mutant("stage forgotten")
def all_on_stage_0(n_stages, n_micro):
    return [[Step(kind, micro, 0) for kind in "FB" for micro in range(n_micro)] for _ in range(n_stages)]


@mutant("1F1B made")
def in_turn(n_stages, n_micro):
    rows = []
    for stage in range(n_stages):
        first = min(n_stages - 1 - stage, n_micro)
        steps = [Step("F", micro, stage) for micro in range(first)]
        for micro in range(n_micro - first):
            steps += [Step("F", first + micro, stage), Step("B", micro, stage)]
        rows.append(steps + [Step("B", micro, stage) for micro in range(n_micro - first, n_micro)])
    return rows


@mutant("no such micro-batch")
def from_one(n_stages, n_micro):
    return [[Step(kind, 1 + micro, stage) for kind in "FB" for micro in range(n_micro)] for stage in range(n_stages)]


@mutant("missing")
def one_backward_short(n_stages, n_micro):
    return [[Step("F", micro, stage) for micro in range(n_micro)] + [Step("B", micro, stage) for micro in range(n_micro - 1)]
            for stage in range(n_stages)]


@mutant("too early")
def backwards_first(n_stages, n_micro):
    return [[Step(kind, micro, stage) for kind in "BF" for micro in range(n_micro)] for stage in range(n_stages)]


@mutant("backward begins early")
def last_stage_in_turn(n_stages, n_micro):
    rows = [[Step(kind, micro, stage) for kind in "FB" for micro in range(n_micro)] for stage in range(n_stages)]
    rows[-1] = [Step(kind, micro, n_stages - 1) for micro in range(n_micro) for kind in "FB"]
    return rows


@mutant("waits")
def every_other_rank_reversed(n_stages, n_micro):
    return [[Step("F", micro, stage) for micro in range(n_micro)]
            + [Step("B", micro, stage) for micro in range(n_micro)][::-1 if stage % 2 else 1] for stage in range(n_stages)]
