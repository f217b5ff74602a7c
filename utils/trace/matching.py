"""Which calls of different ranks belong together."""

from collections import defaultdict
from typing import Any

from utils.trace.calls import POINT_TO_POINT


class Matcher:
    """Gives each call a key, equal for calls that belong together: the n-th collective of a group, or the n-th message
    from one rank to another with one tag. Calls must come in order within each rank."""

    def __init__(self):
        self._counts: dict[Any, int] = defaultdict(int)

    def key(self, rank: int, call: dict) -> tuple:
        """The key of the next call of `rank`."""
        lane, side = ("collective", call["group"]), rank
        if call["op"] in POINT_TO_POINT:
            peer = None if call["peer"] is None else call["members"][call["peer"]]
            ends = (rank, peer) if call["op"] == "send" else (peer, rank)
            lane, side = ("p2p", call["group"], *ends, call["tag"]), call["op"]
        self._counts[lane, side] += 1
        return (*lane, self._counts[lane, side])
