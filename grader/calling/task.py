"""What a rank does with a function: read its inputs, make its group, call it in the exercise's way, pack the result."""

import functools
import runpy
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cloudpickle
import torch.distributed as dist

from grader.calling.forbidden import find, forbid
from grader.calling.sealing import handed_out
from grader.calling.weighing import BEGINNING, weigh
from grader.evidence.case import THINNED, WEIGHED, Case
from grader.evidence.evidence import pack, unpack
from utils.trace.spans import mark

BEGIN = "the function begins"
GRADER = Path(__file__).resolve().parents[1]
LENGTH_BYTES = 8


def call_function(blob: bytes, done: Callable[[], None]) -> bytes:
    """The task of every rank that tries a function: one of `told` in, the packed result out.

    The rank imports it; only the function comes from a student's notebook, and is unpickled here, nowhere else.
    """
    length = int.from_bytes(blob[:LENGTH_BYTES], "little")
    facts = unpack(blob[LENGTH_BYTES + length:])
    forbid(facts["forbidden"])
    call = runpy.run_path(str(GRADER / facts["way"]))["call"]
    function = blob[LENGTH_BYTES:LENGTH_BYTES + length]
    del blob  # from which all inputs could be read again, and which would weigh as much as what they are
    weigh(facts["inputs"], BEGINNING)
    fn = cloudpickle.loads(function)  # the first of a student's code that runs here
    group = _own_group(facts["groups"])
    if group is None:
        return pack(None)
    if facts["late_s"]:
        time.sleep(facts["late_s"])
    mark(BEGIN)
    result = call(fn, facts["inputs"], group)
    done()
    return pack(result, THINNED if facts["inputs"].get(WEIGHED) else 1)


def get_ready(way: str, forbidden: Sequence[str]) -> None:
    """Before ranks are forked: import what this way of calling needs, and find out what is to be forbidden."""
    _imported_by(way)
    find(forbidden)


@functools.cache
def _imported_by(way: str) -> None:
    runpy.run_path(str(GRADER / way))


def told(function: bytes, facts: bytes) -> bytes:
    """What a rank is told: a pickled function, and the facts of a case."""
    return len(function).to_bytes(LENGTH_BYTES, "little") + function + facts


def facts_of(way: str, case: Case, forbidden: Sequence[str] = ()) -> list[bytes]:
    """The facts of a case for each rank. forbidden: modules that the function may not use, as in its exercise.

    way: a file of grader/ that defines call(fn, inputs, group), such as "exercises/03_zero1/clip_gradient_norm/call.py".
    """
    late_s = case.late_s or (0.0,) * case.world_size
    return [pack({"way": way, "groups": case.groups, "late_s": late_s[rank], "forbidden": list(forbidden),
                  "inputs": inputs})
            for rank, inputs in enumerate(handed_out(case))]


def _own_group(groups: tuple[tuple[int, ...], ...] | None) -> dist.ProcessGroup | None:
    """The group that this rank works in; None for a bystander, who makes the groups with the others all the same."""
    if groups is None:
        return dist.group.WORLD
    made = [dist.new_group(list(members)) for members in groups]
    return next((group for group, members in zip(made, groups, strict=True) if dist.get_rank() in members), None)
