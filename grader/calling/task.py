"""What a rank does with a function: make its group, ask for its inputs, call it in the exercise's way, pack the result."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle
import torch.distributed as dist

from grader.calling import letting_go
from grader.calling.forbidden import find, forbid
from grader.calling.handing_out import Given, caller_in
from grader.calling.weighing import weigh_before
from grader.evidence.case import THINNED
from grader.evidence.evidence import pack, unpack
from utils.ranks.fresh_process import draw_anew, seed_of
from utils.trace.spans import mark

BEGIN = "the function begins"
LENGTH_BYTES = 8


def call_function(blob: bytes, done: Callable[[], None], ask: Callable[[], bytes]) -> bytes:
    """The task of every rank that tries a function: `instructions` in, the packed result out.

    The rank imports it; only the function comes from a student's notebook, and is unpickled here, nowhere else. By then
    nothing of the case's inputs is in this process.
    """
    length = int.from_bytes(blob[:LENGTH_BYTES], "little")
    facts, function = unpack(blob[LENGTH_BYTES + length:]), blob[LENGTH_BYTES:LENGTH_BYTES + length]
    call, group = _prepared(facts)
    if group is None:
        return pack(None)
    if facts["weighed"]:
        weigh_before()
    fn = cloudpickle.loads(function)  # the first of a student's code that runs here
    inputs = unpack(ask())
    mark(BEGIN)
    result = call(fn, inputs, group)
    done()
    return pack(result, THINNED if facts["weighed"] else 1)


def call_each(blob: bytes, done: Callable[[], None], ask: Callable[[], bytes]) -> bytes:
    """The task of ranks that try several functions of our own, one after the other; blob and result are pickled.

    Each function gets the inputs anew, and draws the same numbers. Of one that raises the result is None. What a rank still
    holds is not asked here, so nobody waits for it to let go.
    """
    letting_go.SETTLE_S = 0.0
    facts = pickle.loads(blob)
    call, group = _prepared(facts)
    if group is None:
        return pickle.dumps([None] * len(facts["functions"]))
    inputs, results = ask(), []
    for function in facts["functions"]:
        draw_anew(seed_of(facts["seed"], dist.get_rank()))
        try:
            results.append(pack(call(cloudpickle.loads(function), unpack(inputs), group)))
        except Exception:
            results.append(None)
    done()
    return pickle.dumps(results)


def get_ready(caller: str, forbidden: Sequence[str]) -> None:
    """Before ranks are forked: import what this way of calling needs, and find out what is to be forbidden."""
    caller_in(caller)
    find(forbidden)


def instructions(function: bytes, caller: str, forbidden: Sequence[str], given: Given) -> bytes:
    """What each rank is told before it has any inputs: a pickled function, and how to call it."""
    facts = {"caller": caller, "forbidden": list(forbidden), "groups": given.groups, "weighed": given.weighed}
    return len(function).to_bytes(LENGTH_BYTES, "little") + function + pack(facts)


def _prepared(facts: Mapping[str, Any]) -> tuple[Callable, dist.ProcessGroup | None]:
    """How a function is called, and this rank's group; forbidden modules raise from now on."""
    forbid(facts["forbidden"])
    return caller_in(facts["caller"])["call"], _own_group(facts["groups"])


def _own_group(groups: tuple[tuple[int, ...], ...] | None) -> dist.ProcessGroup | None:
    """The group that this rank works in; None for a bystander, who makes the groups with the others all the same."""
    if groups is None:
        return dist.group.WORLD
    made = [dist.new_group(list(members)) for members in groups]
    return next((group for group, members in zip(made, groups, strict=True) if dist.get_rank() in members), None)
