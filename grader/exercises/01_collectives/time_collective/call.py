"""How a rank calls time_collective."""

from utils.trace.spans import mark


def call(fn, inputs: dict, group):
    """fn(run_once, repeats, clock, group): only run_once moves this clock, and most of all its first call.

    Ranks' clocks were set at different times.
    """
    now_s, calls = inputs["set_s"], 0

    def run_once():
        nonlocal now_s, calls
        mark("run_once")
        now_s += inputs["times_s"][(calls - 1) % inputs["repeats"]] if calls else inputs["first_s"]
        calls += 1

    def clock():
        mark("clock")
        return now_s

    return fn(run_once, inputs["repeats"], clock, group)
