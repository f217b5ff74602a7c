"""Ways in which exercises of unit 01 call a function."""

from __future__ import annotations

from typing import Any

import torch

from utils.trace.spans import mark

INPUT_CHANGED = "input changed"


def call_with_compute(fn, inputs: dict[str, Any], group) -> Any:
    """fn(x, compute, group): compute() is work that does not need the communicated tensor."""

    def compute():
        from utils.trace.spans import span

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
