"""Wrong ZB-H1 schedules."""

from tests.mutants import mutant
from utils.schedules.schedule import Step


def _one_f_one_b(n_stages, n_micro):
    rows = []
    for stage in range(n_stages):
        first = min(n_stages - 1 - stage, n_micro)
        steps = [Step("F", micro, stage) for micro in range(first)]
        for micro in range(n_micro - first):
            steps += [Step("F", first + micro, stage), Step("I", micro, stage)]
        rows.append(steps + [Step("I", micro, stage) for micro in range(n_micro - first, n_micro)])
    return rows


def _put_off(n_stages, n_micro, by):
    rows = []
    for rank, steps in enumerate(_one_f_one_b(n_stages, n_micro)):
        row, done = [], 0
        for step in steps:
            row.append(step)
            if step.kind == "I" and step.micro >= by(rank):
                row.append(Step("W", done, rank))
                done += 1
        rows.append(row + [Step("W", micro, rank) for micro in range(done, n_micro)])
    return rows


@mutant("still whole")
def plain(n_stages, n_micro):
    return [[step._replace(kind="F" if step.kind == "F" else "B") for step in row]
            for row in _one_f_one_b(n_stages, n_micro)]


@mutant("weights never")
def only_those_in_the_steady_phase(n_stages, n_micro):
    return [row[:len(row) - rank] for rank, row in enumerate(_put_off(n_stages, n_micro, lambda rank: rank))]


@mutant("weights before input")
def weights_first(n_stages, n_micro):
    return [[step._replace(kind={"I": "W", "W": "I"}.get(step.kind, "F")) for step in row]
            for row in _put_off(n_stages, n_micro, lambda rank: 0)]


@mutant("nothing put off")
def at_once(n_stages, n_micro):
    return _put_off(n_stages, n_micro, lambda rank: 0)


@mutant("weights all at the end")
def at_the_end(n_stages, n_micro):
    return _put_off(n_stages, n_micro, lambda rank: n_micro)


@mutant("put off on the wrong ranks")
def reversed_ranks(n_stages, n_micro):
    return _put_off(n_stages, n_micro, lambda rank: min(n_micro - 1, n_stages - 1 - rank))


@mutant("too much in flight")
def one_more(n_stages, n_micro):
    return _put_off(n_stages, n_micro, lambda rank: rank + 1 if rank else 0)


@mutant("bubble left")
def one_less(n_stages, n_micro):
    return _put_off(n_stages, n_micro, lambda rank: max(0, rank - 1))
