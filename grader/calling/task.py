"""What a rank does with a function: read its inputs, make its group, call it in the exercise's way, pack the result."""

from __future__ import annotations

import runpy
import time
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import torch.distributed as dist

from grader.evidence.evidence import pack, unpack
from utils.trace.spans import mark

BEGIN = "the function begins"
GRADER = Path(__file__).resolve().parents[1]


class RankTask:
    """Calls a pickled student function on one rank's inputs: packed inputs in, packed result out.

    way: a file of grader/ that defines call(fn, inputs, group), such as "exercises/03_zero1/clip_gradient_norm/call.py".
    """

    def __init__(self, function_blob: bytes, way: str, groups: tuple[tuple[int, ...], ...] | None,
                 late_s: tuple[float, ...] = ()):
        self.function_blob, self.way, self.groups, self.late_s = function_blob, way, groups, late_s

    def __call__(self, input_blob: bytes, done: Callable[[], None]) -> bytes:
        call = runpy.run_path(str(GRADER / self.way))["call"]
        fn, inputs = cloudpickle.loads(self.function_blob), unpack(input_blob)
        groups = None if self.groups is None else [dist.new_group(list(members)) for members in self.groups]
        group = dist.group.WORLD
        if groups is not None:
            mine = [g for g, members in zip(groups, self.groups, strict=True) if dist.get_rank() in members]
            if not mine:
                return pack(None)
            group = mine[0]
        if self.late_s:
            time.sleep(self.late_s[dist.get_rank()])
        mark(BEGIN)
        result = call(fn, inputs, group)
        done()
        return pack(result)
