"""One moment of a real run: what each rank does, which messages are on their way, which calls are in flight."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from utils.figures.colours import FAINT, GREY, INK, PALE, ink_on
from utils.figures.lanes import Bar, blocked_bars, call_labels, lanes_of, right_edge
from utils.figures.shapes import arrow, line, tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, first_that_fits, human_bytes, styled
from utils.figures.timeline_layout import COLOURS
from utils.figures.traced import Trace

MOST_RANKS, MOST_MOMENTS, MOST_MESSAGES, MOST_FLIGHTS = 16, 400, 6, 3
BOX_IN, TILE_IN, LANE_IN, TOP_IN = 0.58, 0.3, 0.24, 0.36  # heights: a rank, a tile, a message's lane, the line of time
COMPUTING, QUIET = "computing", "no more calls"  # the trace does not tell when a function returned
Message = tuple[int, int, int]  # sender, receiver, bytes


@dataclass(frozen=True)
class Stand:
    """What a rank does at a moment.  texts: what may be written, longest first; flights: of its calls that go on beside."""

    kind: str  # "computing", "communicating", "waiting", "stuck", "no more calls"
    texts: tuple[str, ...]
    flights: tuple[tuple[str, ...], ...] = ()


class Moments:
    """The moments of a run at which something begins or ends, each with its picture; of very many, some.

    Raises: ValueError for a run of more than 16 ranks, or one in which nothing was traced.
    """

    def __init__(self, trace: Trace):
        if not 1 <= trace.world_size <= MOST_RANKS or not trace.calls:
            raise ValueError(f"can play runs of 1 to {MOST_RANKS} ranks that communicate; this one has {trace.world_size} "
                             f"ranks and {len(trace.calls)} calls")
        self.right_s = right_edge(trace)
        self._calls = [[call for call in trace.of(rank) if call.wait_start_s is not None]
                       for rank in range(trace.world_size)]
        self._lanes = [lanes_of(trace, rank, self.right_s) for rank in range(trace.world_size)]
        self._sends = [call for call in trace.calls if call.op == "send" and call.peer is not None]
        bars = [bar for lanes in self._lanes for bar in (*lanes.blocked, *lanes.spans, *(bar for _, bar in lanes.flights))]
        ends = [time for bar in bars for time in bar.interval] + [lanes.end_s for lanes in self._lanes]
        times_s = sorted({0.0, *(time_s for time_s in ends if time_s <= trace.duration_s)})
        self.times_s = times_s[::-(-len(times_s) // MOST_MOMENTS)]
        self._room = (max(len(self.messages(time_s)) for time_s in self.times_s),
                      max(sum(_at(bar, time_s) for _, bar in lanes.flights)
                          for lanes in self._lanes for time_s in self.times_s))

    def stand(self, rank: int, time_s: float) -> Stand:
        """What `rank` does at a moment."""
        lanes = self._lanes[rank]
        flights = tuple(bar.labels for _, bar in lanes.flights if _at(bar, time_s))
        for call in self._calls[rank]:
            for bar in blocked_bars(call, self.right_s):
                if _at(bar, time_s):
                    return Stand(bar.kind, call_labels(call), flights)
        if time_s >= lanes.end_s:
            return Stand(QUIET, (QUIET, "–"), flights)
        inner = [bar for bar in lanes.spans if _at(bar, time_s)]
        return Stand(COMPUTING, inner[-1].labels if inner else (COMPUTING,), flights)

    def messages(self, time_s: float) -> list[Message]:
        """What is on its way."""
        return [(call.rank, call.peer, call.bytes) for call in self._sends
                if call.start_s <= time_s < (self.right_s if call.end_s is None else call.end_s)]

    def picture(self, number: int) -> Picture:
        """The moment of this number, from 0."""
        time_s = self.times_s[number]
        stands = [self.stand(rank, time_s) for rank in range(len(self._lanes))]
        return moment_figure(stands, self.messages(time_s), time_s, self.right_s, self._room)


@styled
def moment_figure(stands: Sequence[Stand], messages: Sequence[Message], time_s: float, right_s: float,
                  room: tuple[int, int]) -> Picture:
    """A box a rank with what it does, below it its calls in flight; arrows for messages; above all, how far the run is.

    room: for so many messages and so many calls in flight on one rank, so that all moments of a run are equally high.
    """
    lanes, flights = min(room[0], MOST_MESSAGES), min(room[1], MOST_FLIGHTS)
    more = len(messages) - MOST_MESSAGES
    figure, axes = canvas(TOP_IN + BOX_IN + (lanes + flights) * LANE_IN + 0.1 + 0.2 * (room[0] > MOST_MESSAGES))
    bottom = axes.get_ylim()[1] - TOP_IN - BOX_IN
    width_in = min(2.2, (WIDTH_IN - 0.4) / len(stands))
    middles = [0.2 + (rank + 0.5) * width_in for rank in range(len(stands))]
    _draw_time(axes, time_s, right_s)
    for rank, (stand, middle) in enumerate(zip(stands, middles, strict=True)):
        left, tile_in = middle - width_in / 2 + 0.06, width_in - 0.12
        write(axes, (middle, bottom + BOX_IN - 0.14), f"rank {rank}" if width_in > 0.6 else str(rank), 9, fontweight="bold")
        colour = COLOURS.get(stand.kind, PALE)
        tile(axes, (left, bottom), (tile_in, TILE_IN), colour)
        text = first_that_fits(stand.texts, tile_in - 0.06, 8.5)
        write(axes, (middle, bottom + TILE_IN / 2), text, 8.5, color=ink_on(colour))
        for place, texts in enumerate(stand.flights[:MOST_FLIGHTS]):
            low = bottom - (place + 1) * LANE_IN
            tile(axes, (left, low + 0.03), (tile_in, LANE_IN - 0.05), COLOURS["in flight"])
            write(axes, (middle, low + LANE_IN / 2), first_that_fits(texts, tile_in - 0.06, 7.5), 7.5)
    for place, (source, target, size) in enumerate(messages[:MOST_MESSAGES]):
        y = bottom - flights * LANE_IN - (place + 0.6) * LANE_IN
        arrow(axes, (middles[source], y), (middles[target], y), INK, 1.3, head=9, shrink=0)
        write(axes, ((middles[source] + middles[target]) / 2, y + 0.09), human_bytes(size), 7.5)
    if more > 0:
        write(axes, (0.26, 0.12), f"and {more} more messages", 8, ha="left", color=FAINT)
    return Picture(figure, _in_words(stands, messages, time_s, right_s))


def _draw_time(axes: Axes, time_s: float, right_s: float) -> None:
    y, left, right = axes.get_ylim()[1] - 0.16, 0.26, WIDTH_IN - 1.7
    line(axes, (left, y), (right, y), PALE, 4)
    line(axes, (left, y), (left + (right - left) * time_s / right_s, y), GREY, 4)
    write(axes, (right + 0.15, y), f"{1e3 * time_s:.1f} of {1e3 * right_s:.1f} ms", 8.5, ha="left")


def _in_words(stands: Sequence[Stand], messages: Sequence[Message], time_s: float, right_s: float) -> str:
    ranks = [f"rank {rank}: {stand.kind}" + (f" ({stand.texts[0]})" if stand.texts[0] != stand.kind else "")
             for rank, stand in enumerate(stands)]
    moving = [f"{human_bytes(size)} from {source} to {target}" for source, target, size in messages]
    return (f"At {1e3 * time_s:.1f} of {1e3 * right_s:.1f} ms. " + "; ".join(ranks)
            + (f". On their way: {', '.join(moving)}." if moving else "."))


def _at(bar: Bar, time_s: float) -> bool:
    return bar.start_s <= time_s < bar.end_s
