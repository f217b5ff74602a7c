"""Wrong ways to time a collective."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _timed(run_once, repeats, clock):
    start_s = clock()
    for _ in range(repeats):
        run_once()
    return clock() - start_s


def _over_ranks(seconds, group, op=dist.ReduceOp.MAX):
    result = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(result, op=op, group=group)
    return result.item()


@mutant("warm-up timed")
def times_the_first_call_too(run_once, repeats, clock, group):
    dist.barrier(group)
    return _over_ranks(_timed(run_once, repeats, clock) / repeats, group)


@mutant("no barrier")
def starts_without_the_others(run_once, repeats, clock, group):
    run_once()
    return _over_ranks(_timed(run_once, repeats, clock) / repeats, group)


@mutant("total, not per call")
def returns_the_total(run_once, repeats, clock, group):
    run_once()
    dist.barrier(group)
    return _over_ranks(_timed(run_once, repeats, clock), group)


@mutant("own time")
def returns_its_own_time(run_once, repeats, clock, group):
    run_once()
    dist.barrier(group)
    return _timed(run_once, repeats, clock) / repeats


@mutant("mean over ranks")
def averages_over_ranks(run_once, repeats, clock, group):
    run_once()
    dist.barrier(group)
    mine_s = _timed(run_once, repeats, clock) / repeats
    return _over_ranks(mine_s, group, dist.ReduceOp.SUM) / dist.get_world_size(group)


@mutant("sum over ranks")
def adds_over_ranks(run_once, repeats, clock, group):
    run_once()
    dist.barrier(group)
    return _over_ranks(_timed(run_once, repeats, clock) / repeats, group, dist.ReduceOp.SUM)


@mutant("fastest rank")
def takes_the_fastest_rank(run_once, repeats, clock, group):
    run_once()
    dist.barrier(group)
    return _over_ranks(_timed(run_once, repeats, clock) / repeats, group, dist.ReduceOp.MIN)


@mutant("warm-up counted")
def divides_by_one_call_more(run_once, repeats, clock, group):
    run_once()
    dist.barrier(group)
    return _over_ranks(_timed(run_once, repeats, clock) / (repeats + 1), group)


@mutant("result not everywhere")
def only_the_first_rank_knows(run_once, repeats, clock, group):
    run_once()
    dist.barrier(group)
    slowest_s = _over_ranks(_timed(run_once, repeats, clock) / repeats, group)
    return slowest_s if dist.get_rank(group) == 0 else None


@mutant("group ignored")
def meets_the_whole_world(run_once, repeats, clock, group):
    run_once()
    dist.barrier()
    return _over_ranks(_timed(run_once, repeats, clock) / repeats, dist.group.WORLD)
