"""What ranks are given of a case, outside them: each gets its own pieces, and learns nothing of who is late."""

import importlib
import runpy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grader.calling.sealing import handed_out
from grader.evidence.case import Case
from grader.evidence.evidence import pack

GRADER = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Given:
    """What the ranks are given of one case, and when.

    inputs: of each rank, packed. late_s: how much later than all others a rank gets them, or (); the rest as in the case.
    """

    inputs: tuple[bytes, ...]
    groups: tuple[tuple[int, ...], ...] | None = None
    weighed: bool = False
    late_s: tuple[float, ...] = ()

    @property
    def world_size(self) -> int:
        return len(self.inputs)


def given(caller: str, case: Case) -> Given:
    """What the ranks are given that call a function in this way.

    caller: what defines call(fn, inputs, group): a file of grader/, such as "exercises/03_zero1/clip_gradient_norm/call.py",
        which may define hand_out(case) → each rank's inputs, where these are no more than pieces of the case's; or a
        function of grader.calling, such as "splitting:call_conjugate".
    """
    hand_out = caller_in(caller).get("hand_out", handed_out)
    return Given(tuple(map(pack, hand_out(case))), case.groups, case.weighed, case.late_s)


@cache
def caller_in(caller: str) -> dict[str, Any]:
    """What it defines, "call" among it, and all that it imports imported."""
    if caller.endswith(".py"):
        return runpy.run_path(str(GRADER / caller))
    module, function = caller.split(":")
    return {"call": getattr(importlib.import_module(f"grader.calling.{module}"), function)}
