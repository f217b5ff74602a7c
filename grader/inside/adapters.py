"""Inside a rank: the ways in which an exercise's function is called. Runs beside student code, so it is not trusted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist

from grader.inside.evidence import pack, unpack
from grader.inside.pipelining import PIPELINING
from grader.inside.rings import RINGS
from grader.inside.schedules_run import SCHEDULES
from grader.inside.sequences import SEQUENCES
from grader.inside.sharding import SHARDING
from grader.inside.splitting import SPLITTING
from grader.inside.splitting_gpt import SPLITTING_GPT
from grader.inside.training import WITH_MODEL
from utils.spans import mark

BEGIN = "the function begins"
INPUT_CHANGED = "input changed"


class RankTask:
    """Calls a pickled student function on one rank's inputs: packed inputs in, packed result out."""

    def __init__(self, function_blob: bytes, adapter: str, groups: tuple[tuple[int, ...], ...] | None,
                 late_s: tuple[float, ...] = ()):
        self.function_blob, self.adapter, self.groups, self.late_s = function_blob, adapter, groups, late_s

    def __call__(self, input_blob: bytes, done: Callable[[], None]) -> bytes:
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
        result = ADAPTERS[self.adapter](fn, inputs, group)
        done()
        return pack(result)


def call_with_group(fn, inputs: dict[str, Any], group) -> Any:
    """fn(*inputs, group)"""
    return fn(*inputs.values(), group)


def call_plain(fn, inputs: dict[str, Any], group) -> Any:
    """fn(*inputs)"""
    return fn(*inputs.values())


def call_with_say(fn, inputs: dict[str, Any], group) -> Any:
    """fn(say, *inputs, group): say(text) prints and leaves a mark in the trace."""

    def say(text):
        mark("say", text=str(text))
        print(text, flush=True)

    return fn(say, *inputs.values(), group)


def call_with_compute(fn, inputs: dict[str, Any], group) -> Any:
    """fn(x, compute, group): compute() is work that does not need the communicated tensor."""

    def compute():
        from utils.spans import span

        with span("compute"):
            total = 0.0
            for step in range(inputs["steps"]):
                total += float((step * 0.5) ** 0.5)
        return inputs["y"] * 2

    return fn(inputs["x"], compute, group)


def call_watching_inputs(fn, inputs: dict[str, Any], group) -> Any:
    """fn(*inputs, group); leaves a mark in the trace for each input tensor that it changed."""
    before = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    result = fn(*inputs.values(), group)
    for name, value in before.items():
        if not torch.equal(value, inputs[name]):
            mark(INPUT_CHANGED, parameter=name)
    return result


def call_with_clock(fn, inputs: dict[str, Any], group) -> Any:
    """fn(run_once, repeats, clock, group): only run_once moves this clock, and most of all its first call."""
    now_s, calls = 0.0, 0

    def run_once():
        nonlocal now_s, calls
        mark("run_once")
        now_s += inputs["first_s"] if calls == 0 else inputs["later_s"]
        calls += 1

    def clock():
        mark("clock")
        return now_s

    return fn(run_once, inputs["repeats"], clock, group)


ADAPTERS = WITH_MODEL | SHARDING | SPLITTING | SPLITTING_GPT | PIPELINING | SCHEDULES | SEQUENCES | RINGS | {
    f.__name__: f for f in (
        call_with_group, call_plain, call_with_say, call_with_compute, call_watching_inputs, call_with_clock)}
# Those in which an optimizer may step.
TRAIN = frozenset({*WITH_MODEL, *SHARDING, "call_tensor_parallel_gpt", "call_sequence_gpt"})
