"""What the benchmark compares with: a check cell that launches its ranks by torch.multiprocessing.spawn, as is usual.

One spawn for each number of ranks, which then goes through all the cases of that size; values only.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from itertools import groupby

import cloudpickle
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def check_with_spawn(name: str, fn: Callable) -> None:
    """Run the public cases of one exercise and compare.  Raises: AssertionError."""
    from grader.check import PUBLIC_SEED
    from grader.exercises import EXERCISES
    from grader.judge import first_difference

    exercise = EXERCISES[name]
    cases = sorted(exercise.cases(PUBLIC_SEED, grading=False), key=lambda case: case.world_size)
    for world_size, same_size in groupby(cases, key=lambda case: case.world_size):
        chosen = list(same_size)
        for case, found in zip(chosen, _spawned(fn, exercise.adapter, chosen, world_size), strict=True):
            for rank, expected in enumerate(exercise.oracle(case)):
                difference = first_difference(found[rank], expected, exercise.tolerance) if case.members(rank) else ""
                assert not difference, f"{case.name}, rank {rank}: {difference}"


def _spawned(fn: Callable, adapter: str, cases: list, world_size: int) -> list[list]:
    """Result of each case and rank."""
    os.environ["GRADER_INSIDE"] = "1"  # the ranks import the adapters only
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (world_size, cloudpickle.dumps((fn, adapter, cases)), folder), nprocs=world_size)
        results = [torch.load(f"{folder}/{rank}", weights_only=False) for rank in range(world_size)]
    return [[results[rank][number] for rank in range(world_size)] for number in range(len(cases))]


def rank_main(rank: int, world_size: int, blob: bytes, folder: str) -> None:
    """Entry point of a spawned rank."""
    from grader.inside.adapters import ADAPTERS

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size)
    fn, adapter, cases = cloudpickle.loads(blob)
    results = []
    for case in cases:
        groups = [] if case.groups is None else [dist.new_group(list(members)) for members in case.groups]
        mine = [group for group, members in zip(groups, case.groups or (), strict=True) if rank in members]
        working = case.groups is None or mine
        group = mine[0] if mine else dist.group.WORLD
        results.append(ADAPTERS[adapter](fn, dict(case.inputs[rank]), group) if working else None)
        dist.barrier()
    torch.save(results, f"{folder}/{rank}")
    dist.destroy_process_group()
