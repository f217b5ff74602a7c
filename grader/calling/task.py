"""What a rank does with a function: read its inputs, make its group, call it in the exercise's way, pack the result."""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from grader.evidence.case import Case
from grader.evidence.evidence import pack, unpack
from utils.trace.spans import mark

BEGIN = "the function begins"
GRADER = Path(__file__).resolve().parents[1]


class RankTask:
    """Calls a student's function in a rank: one of `rank_inputs` in, packed result out.

    It is pickled where the function is, in the notebook; how it is called comes later, as plain data beside the inputs.
    """

    def __init__(self, fn: Callable):
        self.fn = fn

    def __call__(self, input_blob: bytes, done: Callable[[], None]) -> bytes:
        told = unpack(input_blob)
        call = runpy.run_path(str(GRADER / told["way"]))["call"]
        group = _own_group(told["groups"])
        if group is None:
            return pack(None)
        time.sleep(told["late_s"])
        mark(BEGIN)
        result = call(self.fn, told["inputs"], group)
        done()
        return pack(result)


def rank_inputs(way: str, case: Case) -> list[bytes]:
    """All that each rank is told of a case.

    way: a file of grader/ that defines call(fn, inputs, group), such as "exercises/03_zero1/clip_gradient_norm/call.py".
    """
    late_s = case.late_s or (0.0,) * case.world_size
    return [pack({"way": way, "groups": case.groups, "late_s": late_s[rank], "inputs": inputs})
            for rank, inputs in enumerate(case.inputs)]


def _own_group(groups: tuple[tuple[int, ...], ...] | None) -> dist.ProcessGroup | None:
    """The group that this rank works in; None for a bystander, who makes the groups with the others all the same."""
    if groups is None:
        return dist.group.WORLD
    made = [dist.new_group(list(members)) for members in groups]
    return next((group for group, members in zip(made, groups, strict=True) if dist.get_rank() in members), None)
