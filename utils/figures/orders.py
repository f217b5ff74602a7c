"""The orders of a pipeline, drawn as they are published: 4 ranks, 8 micro-batches, messages that take no time.

They are given as text, so that a reader sees an order before writing the program that makes one.
"""

from utils.figures.pipeline import schedule_grids
from utils.figures.style import Picture
from utils.schedules.schedule import Schedule, Times, parse_schedule

N_RANKS, N_MICRO = 4, 8
SLOTS = {"F": 1, "B": 2, "I": 1, "W": 1}  # how long a pass takes
# A rank's passes in its line, and a dot for each idle slot. F2.5 is a pass on stage 5, the rank's second chunk.
ORDERS = {
    "GPipe": ("F0 F1 F2 F3 F4 F5 F6 F7 ......... B0 B1 B2 B3 B4 B5 B6 B7",
              ". F0 F1 F2 F3 F4 F5 F6 F7 ...... B0 B1 B2 B3 B4 B5 B6 B7",
              ".. F0 F1 F2 F3 F4 F5 F6 F7 ... B0 B1 B2 B3 B4 B5 B6 B7",
              "... F0 F1 F2 F3 F4 F5 F6 F7 B0 B1 B2 B3 B4 B5 B6 B7"),
    "1F1B": ("F0 F1 F2 F3 ...... B0 F4 B1 F5 B2 F6 B3 F7 B4 . B5 . B6 . B7",
             ". F0 F1 F2 .... B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 . B6 . B7",
             ".. F0 F1 .. B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 . B7",
             "... F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"),
    "interleaved": ("F0 F1 F2 F3 F0.4 F1.4 F2.4 F3.4 F4 F5 F6 ... B0.4 F7 B1.4 . F4.4 B2.4 F5.4 B3.4 F6.4 B0 F7.4 B1 B2 . "
                    "B3 . B4.4 . B5.4 . B6.4 . B7.4 B4 B5 B6 B7",
                    ". F0 F1 F2 F3 F0.5 F1.5 F2.5 F3.5 F4 .. B0.5 F5 B1.5 F6 B2.5 F7 B3.5 F4.5 B0 F5.5 B1 F6.5 B2 F7.5 B3 "
                    ". B4.5 . B5.5 . B6.5 . B7.5 B4 B5 B6 B7",
                    ".. F0 F1 F2 F3 F0.6 F1.6 F2.6 . B0.6 F3.6 B1.6 F4 B2.6 F5 B3.6 F6 B0 F7 B1 F4.6 B2 F5.6 B3 F6.6 B4.6 "
                    "F7.6 B5.6 . B6.6 . B7.6 B4 B5 B6 B7",
                    "... F0 F1 F2 F3 F0.7 B0.7 F1.7 B1.7 F2.7 B2.7 F3.7 B3.7 F4 B0 F5 B1 F6 B2 F7 B3 F4.7 B4.7 F5.7 B5.7 "
                    "F6.7 B6.7 F7.7 B7.7 B4 B5 B6 B7"),
    "ZB-H1": ("F0 F1 F2 F3 ... I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7",
              ". F0 F1 F2 .. I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7",
              ".. F0 F1 . I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7",
              "... F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7"),
}
TITLES = {"interleaved": "interleaved 1F1B, 2 chunks on each rank (the second one is lighter)"}


def orders_figure(*names: str) -> Picture:
    """Some of the orders GPipe, 1F1B, interleaved and ZB-H1, one below another, on the same scale of time.

    4 ranks, 8 micro-batches, no hops. A forward pass of a whole stage takes 1 unit, and a backward pass 2.
    Raises: ValueError for another name, or for none.
    """
    if not names or not set(names) <= set(ORDERS):
        raise ValueError(f"orders_figure takes some of {', '.join(ORDERS)}; got {', '.join(names) or 'none'}")
    panels = {}
    for name in names:
        _, times = order_drawn(name)
        units = max(end for _, end in times.values())
        panels[f"{TITLES.get(name, name)}: {units:g} units"] = times
    return schedule_grids(panels, N_RANKS)


def order_drawn(name: str) -> tuple[Schedule, Times]:
    """One of the orders as a schedule, and when each of its steps starts and ends."""
    rows = [row.split() for row in ORDERS[name]]
    schedule = parse_schedule(*(" ".join(word for word in row if word[0] != ".") for row in rows))
    n_chunks = 1 + max(step.stage for steps in schedule for step in steps) // N_RANKS
    times: Times = {}
    for row, steps in zip(rows, schedule, strict=True):
        now, left = 0, iter(steps)
        for word in row:
            started, now = now, now + (len(word) if word[0] == "." else SLOTS[word[0]])
            if word[0] != ".":
                times[next(left)] = started / n_chunks, now / n_chunks
    return schedule, times
