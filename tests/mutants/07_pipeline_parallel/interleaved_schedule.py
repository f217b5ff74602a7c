"""Wrong interleaved schedules."""

from tests.mutants import mutant
from utils.schedules.schedule import Step


def _made(n_ranks, n_chunks, n_micro, warm_up=None, stage=None, backward_chunk=None, group=None):
    group = group or n_ranks
    order = [(c, first + k) for first in range(0, n_micro, group) for c in range(n_chunks) for k in range(group)]
    stage = stage or (lambda chunk, rank: chunk * n_ranks + rank)
    backward_chunk = backward_chunk or (lambda chunk: n_chunks - 1 - chunk)
    warm_up = warm_up or (lambda rank: 2 * (n_ranks - 1 - rank) + (n_chunks - 1) * n_ranks)
    rows = []
    for rank in range(n_ranks):
        forward = [Step("F", micro, stage(chunk, rank)) for chunk, micro in order]
        backward = [Step("B", micro, stage(backward_chunk(chunk), rank)) for chunk, micro in order]
        first = max(0, min(warm_up(rank), len(order)))
        steady = [step for pair in zip(forward[first:], backward, strict=False) for step in pair]
        rows.append(forward[:first] + steady + backward[len(order) - first:])
    return rows


def _refuse(n_ranks, n_micro):
    if n_micro % n_ranks:
        raise ValueError(f"{n_micro} micro-batches do not divide by {n_ranks} ranks")


@mutant("micro-batches do not divide")
def never_refuses(n_ranks, n_chunks, n_micro):
    return _made(n_ranks, n_chunks, n_micro - n_micro % n_ranks)


@mutant("refused")
def refuses_too_much(n_ranks, n_chunks, n_micro):
    if n_micro % (n_ranks * n_chunks):
        raise ValueError(f"{n_micro} micro-batches do not divide by {n_ranks} ranks")
    return _made(n_ranks, n_chunks, n_micro)


@mutant("not a row a rank")
def a_row_a_stage(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    rows = _made(n_ranks, n_chunks, n_micro)
    return [[step for step in rows[stage % n_ranks] if step.stage == stage] for stage in range(n_ranks * n_chunks)]


@mutant("stages side by side")
def blocks(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    return _made(n_ranks, n_chunks, n_micro, stage=lambda chunk, rank: rank * n_chunks + chunk)


@mutant("one chunk only")
def plain_1f1b(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    return _made(n_ranks, 1, n_micro, lambda rank: n_ranks - 1 - rank)


@mutant("chunks forward and backward alike")
def same_order(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    return _made(n_ranks, n_chunks, n_micro, warm_up=lambda rank: n_chunks * n_micro, backward_chunk=lambda chunk: chunk)


@mutant("chunk by chunk")
def all_of_a_chunk(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    return _made(n_ranks, n_chunks, n_micro, group=n_micro, warm_up=lambda rank: n_chunks * n_micro)


@mutant("deadlock")
def last_rank_waits_for_all(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    rows = _made(n_ranks, n_chunks, n_micro)
    rows[-1].sort(key=lambda step: step.kind != "F")
    return rows


@mutant("warm-up too long")
def two_more(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    return _made(n_ranks, n_chunks, n_micro, lambda rank: 2 * (n_ranks - rank) + (n_chunks - 1) * n_ranks)


@mutant("waits")
def distance_once(n_ranks, n_chunks, n_micro):
    _refuse(n_ranks, n_micro)
    return _made(n_ranks, n_chunks, n_micro, lambda rank: n_ranks - 1 - rank + (n_chunks - 1) * n_ranks)
