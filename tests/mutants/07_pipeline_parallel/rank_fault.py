"""Wrong searches of one rank's list."""

from tests.mutants import mutant
from utils.schedules.faults import MISSING, NO_SUCH_MICRO, NOT_THIS_RANKS, REPEATED, TOO_EARLY, UNKNOWN_KIND
from utils.schedules.schedule import Fault, Step

from .right import needed


def _impossible(step, rank, shape, without=()):
    stages = range(rank, shape.n_stages, shape.n_ranks)
    if step.kind not in shape.kinds and UNKNOWN_KIND not in without:
        return UNKNOWN_KIND
    if not 0 <= step.micro < shape.n_micro and NO_SUCH_MICRO not in without:
        return NO_SUCH_MICRO
    return NOT_THIS_RANKS if step.stage not in stages and NOT_THIS_RANKS not in without else None


def _fault(steps, rank, shape, without=(), everywhere=False):
    stages = range(rank, shape.n_stages, shape.n_ranks)
    for step in steps:
        why = _impossible(step, rank, shape, without)
        if why:
            return Fault(rank, step, why)
    for i, step in enumerate(steps):
        if step in steps[:i] and REPEATED not in without:
            return Fault(rank, step, REPEATED)
    for step in (Step(k, m, s) for s in stages for m in range(shape.n_micro) for k in shape.kinds):
        if step not in steps and MISSING not in without:
            return Fault(rank, step, MISSING)
    for i, step in enumerate(steps):
        needs = [need for need in needed(step, shape.n_stages) if everywhere or need.stage in stages]
        if step.kind in shape.kinds and TOO_EARLY not in without and any(need not in steps[:i] for need in needs):
            return Fault(rank, step, TOO_EARLY)
    return None


@mutant("stages of a rank")
def one_stage_only(steps, rank, shape):
    for step in steps:
        if step.stage != rank:
            return Fault(rank, step, NOT_THIS_RANKS)
    return _fault(steps, rank, shape)


@mutant("other ranks' steps wanted")
def wants_them_all(steps, rank, shape):
    return _fault(steps, rank, shape, everywhere=True)


@mutant("repeats not seen")
def as_a_set(steps, rank, shape):
    return _fault(steps, rank, shape, (REPEATED,))


@mutant("missing not seen")
def none_missing(steps, rank, shape):
    return _fault(steps, rank, shape, (MISSING,))


@mutant("order not seen")
def any_order(steps, rank, shape):
    return _fault(steps, rank, shape, (TOO_EARLY,))


@mutant("micro-batch not checked")
def any_micro_batch(steps, rank, shape):
    return _fault(steps, rank, shape, (NO_SUCH_MICRO,))


@mutant("kind not checked")
def any_kind(steps, rank, shape):
    return _fault(steps, rank, shape, (UNKNOWN_KIND,))


@mutant("stage not checked")
def any_stage(steps, rank, shape):
    return _fault(steps, rank, shape, (NOT_THIS_RANKS,))


@mutant("one search for all")
def step_by_step(steps, rank, shape):
    stages = range(rank, shape.n_stages, shape.n_ranks)
    for i, step in enumerate(steps):
        why = _impossible(step, rank, shape) or (REPEATED if step in steps[:i] else None)
        if why:
            return Fault(rank, step, why)
        if any(need.stage in stages and need not in steps[:i] for need in needed(step, shape.n_stages)):
            return Fault(rank, step, TOO_EARLY)
    return _fault(steps, rank, shape)
