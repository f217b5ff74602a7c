"""What the benchmark compares with: a check cell that launches its ranks by torch.multiprocessing.spawn, as is usual.

One spawn a case, as in the tests of most courses; the grader's own launches are fresh for each case too. Values only.
"""

import tempfile
from collections.abc import Callable

import cloudpickle
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from grader.calling.handing_out import caller_in, given
from grader.evidence.evidence import unpack

SEED = 7


def check_with_spawn(name: str, fn: Callable) -> None:
    """Run the grading cases of one exercise, without those where a rank is late, and compare.  Raises: AssertionError."""
    from grader.exercises import EXERCISES
    from grader.judging.compare import first_difference

    exercise = EXERCISES[name]
    for trial in exercise.trials(SEED, grading=True):
        if trial.case.late_s:
            continue
        found = _spawned(fn, exercise.caller, trial.case)
        for rank in trial.working:
            difference = first_difference(found[rank], trial.right[rank], exercise.tolerance)
            assert not difference, f"{trial.case.name}, rank {rank}: {difference}"


def _spawned(fn: Callable, caller: str, case) -> list:
    """Result of each rank."""
    with tempfile.TemporaryDirectory() as folder:
        blob = cloudpickle.dumps((fn, caller, case.groups))
        inputs = [unpack(own) for own in given(caller, case).inputs]
        mp.spawn(rank_main, (blob, inputs, folder), nprocs=case.world_size)
        return [torch.load(f"{folder}/{rank}", weights_only=False) for rank in range(case.world_size)]


def rank_main(rank: int, blob: bytes, inputs: list[dict], folder: str) -> None:
    """Entry point of a spawned rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=len(inputs))
    fn, caller, members = cloudpickle.loads(blob)
    call = caller_in(caller)["call"]
    groups = [dist.new_group(list(one)) for one in members or ()]
    mine = [group for group, one in zip(groups, members or (), strict=True) if rank in one]
    working = members is None or mine
    result = call(fn, inputs[rank], mine[0] if mine else dist.group.WORLD) if working else None
    torch.save(result, f"{folder}/{rank}")
    dist.barrier()
    dist.destroy_process_group()
