"""Times of several ways of doing one thing."""

import time
from collections.abc import Callable, Mapping


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter,
            before: Callable[[], object] = lambda: None) -> dict[str, list[float]]:
    """Each way's seconds, one for every round.  A round calls each way once, so that a noisy machine slows all alike.

    before(): called ahead of each, and not timed: a barrier, say.
    """
    times_s: dict[str, list[float]] = {name: [] for name in ways}
    for name in rounds * list(ways):
        before()
        start_s = clock()
        ways[name]()
        times_s[name].append(clock() - start_s)
    return times_s
