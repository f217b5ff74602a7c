"""The planner's search: a processor's seconds to go through all layouts of GPT-3 175B on 1,024 devices."""

import time
from collections.abc import Callable

from utils.planner.published import model_named
from utils.planner.search import search

DEVICES, SEQUENCES, ROUNDS, WANTED_S = 1024, 1536, 5, 2.0


def bench_search(line: Callable) -> None:
    """The fastest of some searches: others on the machine only make it longer."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        found = search(model_named("GPT-3 175B"), "A100", DEVICES, SEQUENCES)
        seconds.append(time.process_time() - began)
    line(f"search of 175B on {DEVICES:,} devices, seconds", min(seconds), f"< {WANTED_S:g}", min(seconds) < WANTED_S,
         f"{found.layouts:,} layouts, {found.evaluated} of them timed exactly")
