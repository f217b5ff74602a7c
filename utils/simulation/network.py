"""When messages arrive on links that are shared: each link serves whoever comes first, one after the other.

Not modelled: packets that take turns (a large message holds a small one up until it is through; the total is the same),
protocols, loss, adaptive routing.
"""

from collections import defaultdict

from utils.simulation.cluster import Cluster, Hop, Torus
from utils.simulation.collectives import Message, Round


class Network:
    """The links of a cluster and until when each is busy."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._routes: dict[tuple[int, int], list[Hop]] = {}  # of those who have spoken in this run
        self._free_at: dict[tuple, float] = defaultdict(float)
        self.bytes_by_link: dict[str, float] = defaultdict(float)
        self.busy_s_by_link: dict[str, float] = defaultdict(float)  # of all links of a kind together

    def send(self, source: int, target: int, nbytes: float, ready_s: float) -> float:
        """When a message that could begin at `ready_s` has arrived."""
        return self._transfer(source, target, nbytes, ready_s)[0]

    def exchange(self, rounds: list[Round], ready_s: float) -> float:
        """When all messages of all rounds have arrived."""
        if rounds and all(each.in_turn for each in rounds):
            return self._in_turn([message for each in rounds for message in each.messages], ready_s)
        for each in rounds:
            arrivals = [self._transfer(*message, ready_s) for message in each.messages]
            ready_s = max((arrival + (each.times - 1) * latency for arrival, latency in arrivals), default=ready_s)
        return ready_s

    def _in_turn(self, messages: list[Message], ready_s: float) -> float:
        """When all have come, if nobody waits for a partner: the busiest sender, receiver or link sets the pace.

        On a torus a device has a port for each neighbour, so no more than its links hold it up.
        """
        if not messages:
            return ready_s
        sending_s: dict[int, float] = defaultdict(float)
        receiving_s: dict[int, float] = defaultdict(float)
        used_s: dict[tuple, float] = defaultdict(float)
        longest_s = 0.0
        for source, target, nbytes in messages:
            latency_s, slowest_s = 0.0, 0.0
            for hop in self._route(source, target):
                busy_s = self._count(hop, nbytes)
                used_s[hop.wire] += busy_s
                latency_s, slowest_s = latency_s + hop.latency_s, max(slowest_s, busy_s)
            sending_s[source] += latency_s + slowest_s
            receiving_s[target] += latency_s + slowest_s
            longest_s = max(longest_s, latency_s)
        for wire, busy_s in used_s.items():
            self._free_at[wire] = max(self._free_at[wire], ready_s) + busy_s
        one_port = not isinstance(self._cluster.topology, Torus)
        by_ranks = ready_s + max(*sending_s.values(), *receiving_s.values()) if one_port else ready_s
        return max(by_ranks, longest_s + max(self._free_at[wire] for wire in used_s))

    def _transfer(self, source: int, target: int, nbytes: float, ready_s: float) -> tuple[float, float]:
        """(arrival, latency of the way)"""
        hops = self._route(source, target)
        start = max(ready_s, max(self._free_at[hop.wire] for hop in hops))
        latency, slowest = 0.0, 0.0
        for hop in hops:
            busy_s = self._count(hop, nbytes)
            self._free_at[hop.wire] = start + busy_s
            latency, slowest = latency + hop.latency_s, max(slowest, busy_s)
        return start + latency + slowest, latency

    def _route(self, source: int, target: int) -> list[Hop]:
        hops = self._routes.get((source, target))
        if hops is None:
            hops = self._routes[source, target] = self._cluster.route(source, target)
        return hops

    def _count(self, hop: Hop, nbytes: float) -> float:
        """How long the link is busy with it."""
        busy_s = nbytes / hop.bytes_per_s
        self.bytes_by_link[hop.kind] += nbytes
        self.busy_s_by_link[hop.kind] += busy_s
        return busy_s
