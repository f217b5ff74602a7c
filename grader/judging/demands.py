"""Demands on the technique that several exercises share: which calls, how many bytes, to whom, and all waited for."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from grader.calling.watching_inputs import INPUTS_LOOKED_AT
from grader.evidence.traffic import NETWORK_DEMAND
from grader.judging.exercise import Demand, Look
from grader.judging.network import contradictions
from utils.trace.calls import POINT_TO_POINT
from utils.trace.trace import Call, Trace

HIDDEN_DEMAND = "memory hidden"  # its hint, and NETWORK_DEMAND's, send for a person


class NotSeen(LookupError):
    """What a demand is judged by is not in the evidence; then it is not met."""


def only_calls(*allowed: str, id: str = "library call") -> Demand:
    """Gate: no collective other than `allowed`. Beside some, a barrier brings nobody any numbers."""
    harmless = {"new_group", "barrier"} if set(allowed) - POINT_TO_POINT else {"new_group"}

    def judge(look: Look) -> tuple[bool, str]:
        used = sorted({c.op for c in look.evidence.trace.calls} - set(allowed) - harmless)
        return not used, f"used {', '.join(used)}"

    label = f"only {' and '.join(allowed)}" if allowed else "no communication"
    return Demand(id, label, judge, gate=True, forbids=True)


def only_point_to_point() -> Demand:
    """Gate: the collective is written from sends and receives."""
    return only_calls(*sorted(POINT_TO_POINT, reverse=True))


def bytes_sent(limit: Callable[[Look, int], float], label: str, id: str = "too many bytes") -> Demand:
    """Each rank sends at most limit(look, rank) bytes, by the ring formulas for collectives."""

    def judge(look: Look) -> tuple[bool, str]:
        trace = look.evidence.trace
        for rank in look.working:
            allowed, sent = limit(look, rank), trace.bytes_sent(rank)
            if sent > allowed + 1e-6:
                return False, f"rank {rank} sent {sent:,.0f} B, allowed {allowed:,.0f} B"
        return True, ""

    return Demand(id, label, judge, forbids=True)


def not_far_more_bytes(limit: Callable[[Look, int], float], id: str = "far too many bytes") -> Demand:
    """Gate: each rank sends at most twice limit(look, rank) bytes; beyond that it is another collective."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            allowed, sent = 2 * limit(look, rank), look.evidence.trace.bytes_sent(rank)
            if look.case.group_size(rank) > 1 and sent > allowed + 1e-6:
                return False, f"rank {rank} sent {sent:,.0f} B, twice what is needed is {allowed:,.0f} B"
        return True, ""

    return Demand(id, "at most twice the bytes that are needed", judge, gate=True, forbids=True)


def ring_neighbours() -> Demand:
    """Every send goes to the next rank of the group."""
    return Demand("not a ring", "sends to the next rank only", _sends_within(1), forbids=True)


def only_neighbours_in_ring() -> Demand:
    """Gate: every send goes to the rank after or before; else one rank could compute for all."""
    return Demand("past the neighbours", "sends to neighbours only", _sends_within(1, -1), gate=True, for_right_values=True,
                  forbids=True)


def _sends_within(*steps: int) -> Callable[[Look], tuple[bool, str]]:

    def judge(look: Look) -> tuple[bool, str]:
        for call in look.evidence.trace.of(op="send"):
            members = look.case.members(call.rank)
            places = [members.index(call.rank) + step for step in steps] if call.rank in members else ()
            if call.peer not in [members[place % len(members)] for place in places]:
                return False, f"rank {call.rank} sent to rank {call.peer}"
        return True, ""

    return judge


def messages_at_most(limit: Callable[[Look, int], int], label: str, id: str = "too many messages") -> Demand:
    """Each rank makes at most limit(look, rank) sends."""

    def judge(look: Look) -> tuple[bool, str]:
        for rank in look.working:
            count, allowed = len(look.evidence.trace.of(rank, "send")), limit(look, rank)
            if count > allowed:
                return False, f"rank {rank} sent {count} message{'s' * (count != 1)}, allowed {allowed}"
        return True, ""

    return Demand(id, label, judge, forbids=True)


def rounds_at_most(limit: Callable[[Look, int], int], label: str, id: str = "too many rounds") -> Demand:
    """The messages fit in limit(look, rank) rounds, in each of which a rank sends or receives one message at most."""

    def late(look: Look, rounds: Mapping[int, int]) -> str:
        ranks = (rank for rank in look.working if rounds.get(rank, 0) > limit(look, rank))
        return next((f"rank {rank} is done in round {rounds[rank]}, allowed {limit(look, rank)}" for rank in ranks), "")

    def judge(look: Look) -> tuple[bool, str]:
        calls = tuple(call for call in look.evidence.trace.calls if call.rank in look.working)
        messages = Counter(end for call in calls if call.op == "send" for end in (call.rank, call.peer))
        # Each message takes a round, so where there are few rounds, there is little to put in order.
        found = late(look, messages) or late(look, last_rounds(replace(look.evidence.trace, calls=calls)))
        return not found, found

    return Demand(id, label, judge, forbids=True)


def last_rounds(trace: Trace) -> dict[int, int]:
    """The round of each rank's last message, when a rank takes part in one message a round, in its program's order."""
    waiting = {rank: sorted((c for c in trace.of(rank) if c.op in POINT_TO_POINT), key=lambda c: c.number)
               for rank in range(trace.world_size)}
    clock = dict.fromkeys(waiting, 0)
    while sends := [c for calls in waiting.values() for c in calls if c.op == "send"]:
        send, receive = min(((s, _partner(s, waiting)) for s in sends), key=lambda pair: (
            sum(waiting[c.rank].index(c) for c in pair if c), pair[0].start_s))
        for call in (send, receive):
            if call:
                waiting[call.rank].remove(call)
        clock[send.rank] = clock[send.peer] = max(clock[send.rank], clock[send.peer]) + 1
    return clock


def _partner(send: Call, waiting: dict[int, list[Call]]) -> Call | None:
    return next((c for c in waiting[send.peer] if c.op == "recv" and c.peer in (send.rank, None)), None)


def inputs_kept(id: str = "input changed", gate: bool = False) -> Demand:
    """The function left its inputs as they were. Needs to be called by watching_inputs, as it usually is."""

    def judge(look: Look) -> tuple[bool, str]:
        looks = [span for span in look.evidence.trace.spans if span.name == INPUTS_LOOKED_AT]
        changed = [(span.rank, name) for span in looks for name in span.facts["changed"]]
        if not changed and {span.rank for span in looks} < set(look.working):
            raise NotSeen("whether inputs were changed was not seen on every rank")
        return not changed, "rank {}: {} was changed".format(*changed[0]) if changed else ""

    return Demand(id, "inputs left as they were", judge, gate)


def results_waited() -> Demand:
    """Gate: every receive and every collective was waited for before the function returned; else its result is luck."""
    return _waited("missing wait", "every result waited for", lambda call: call.op not in ("send", "barrier"), gate=True)


def unchanged_under_way() -> Demand:
    """Nobody wrote into a tensor between the start of an asynchronous call on it and the wait: the result would be luck."""
    def judge(look: Look) -> tuple[bool, str]:
        changed = [call for call in look.evidence.trace.calls if call.changed]
        return not changed, f"rank {changed[0].rank}: {changed[0].op} at {changed[0].source}" if changed else ""

    return Demand("changed under way", "no tensor is written into while its transfer is under way", judge, forbids=True)


def sends_waited() -> Demand:
    """Every send was waited for before the function returned."""
    return _waited("send not waited for", "every send waited for", lambda call: call.op == "send", gate=False)


def _waited(id: str, label: str, asked: Callable[[Call], bool], gate: bool) -> Demand:

    def judge(look: Look) -> tuple[bool, str]:
        untrue = _ended_before_others_began(look) if look.evidence.messages else set()
        forgotten = [c for c in look.evidence.trace.calls if asked(c) and (not c.waited or (c.rank, c.number) in untrue)]
        first = f"rank {forgotten[0].rank}: {forgotten[0].op} at {forgotten[0].source}" if forgotten else ""
        return not forgotten, first

    return Demand(id, label, judge, gate, forbids=True)


_OF_ALL = ("all_reduce", "reduce_scatter", "all_gather")  # where each rank's result needs every other's part


def _ended_before_others_began(look: Look) -> set[tuple[int, int]]:
    """(rank, number) of the calls whose reported wait was over before another member made its call: it cannot have been."""
    met: dict[tuple, list[Call]] = defaultdict(list)
    count: Counter[tuple] = Counter()
    for call in look.evidence.trace.calls:
        if call.op in _OF_ALL and call.bytes:
            own = call.rank, call.group, call.members
            met[call.group, call.members, count[own]].append(call)
            count[own] += 1
    return {(call.rank, call.number) for calls in met.values() for call in calls
            if call.end_s is not None and call.end_s < max(other.start_s for other in calls)}


def tensor_bytes(look: Look, rank: int, parameter: str = "x") -> int:
    """Size of one rank's input tensor in bytes."""
    return look.case.inputs[rank][parameter].nbytes


# ── the network against the calls ──

# Where no witness saw everything, all that crossed must fit the calls. gloo moves more than the formula says for some.
NETWORK_FACTOR = {"reduce_scatter": 2.0, "reduce": 2.0}
NETWORK_TOLERANCE = 1.1
NETWORK_START_BYTES = 8 << 10  # a group's meeting, for each pair of ranks
NETWORK_CALL_BYTES = 800  # headers and acknowledgements, for each member of the group: small rings send 2(n−1) messages


def network_agrees(gate: bool) -> Demand:
    """What crossed the network, counted outside the ranks, is what their calls account for."""
    return Demand(NETWORK_DEMAND, "the network saw what the calls say", _network_judge, gate)


def _network_judge(look: Look) -> tuple[bool, str]:
    witness = look.evidence.messages
    if witness and witness.complete:
        contradiction = next(contradictions(look, witness), "")
        return not contradiction, contradiction
    trace, n = look.evidence.trace, look.case.world_size
    seen = look.evidence.loopback_bytes
    least = sum(call.bytes_formula for call in trace.calls if call.waited)  # a send that nobody receives moves nothing
    most = NETWORK_TOLERANCE * sum(call.bytes_formula * NETWORK_FACTOR.get(call.op, 1.0) for call in trace.calls)
    most += NETWORK_START_BYTES * n * n + NETWORK_CALL_BYTES * sum(len(call.members) for call in trace.calls)
    return least <= seen <= most, f"{seen:,} B crossed, the calls account for {least:,.0f} B"
