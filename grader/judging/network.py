"""What the witness outside the ranks saw cross the network, held against the calls that the ranks reported."""

from collections.abc import Iterator

from grader.evidence.traffic import CONNECTION, FOREIGN, NOT_TCP, NOTICE, Flow, Observed
from grader.judging.exercise import Look
from utils.trace.trace import Call

# What gloo uses for a call where it is not the collective of the same name, and how many times the formula's bytes it moves.
CARRIED_BY = {"reduce_scatter": "all_reduce"}
MOVES_AT_MOST = {"reduce_scatter": 2.0, "reduce": 1.5}  # a reduce's last step: each rank's share once more, to the root
ROUNDING = 1.02
ROUNDING_BYTES = 64  # for each call: shares are whole elements
MONITORED_BARRIER_BYTES = 4  # which it sends to the first rank, and which comes back
STORE_BYTES = 768  # which a rank tells the store when it makes a group, and for each member:
STORE_BYTES_PER_MEMBER = 128


def contradictions(look: Look, seen: Observed) -> Iterator[str]:
    """In words, each thing that was seen and not reported, or reported and not seen. Call it with a complete observation."""
    yield from _not_calls(seen)
    yield from _collectives(look, seen)
    yield from _sends(look, seen)
    yield from _setting_up(look, seen)


def _not_calls(seen: Observed) -> Iterator[str]:
    """Data that travelled without gloo; what a rank tells itself is its own affair."""
    foreign = [f for f in seen.flows if f.kind == FOREIGN and (f.source is None or f.source != f.target)]
    if foreign:
        yield f"{_total(foreign):,} B crossed on {_between(foreign[0])} that are not dist calls"
    other = [f for f in seen.flows if f.kind == NOT_TCP]
    if other:
        yield f"{_total(other):,} B crossed without a connection (not TCP): these are not dist calls"


def _collectives(look: Look, seen: Observed) -> Iterator[str]:
    """Bytes of each kind of collective, over all ranks together."""
    calls = [c for c in look.evidence.trace.calls if c.op not in ("send", "recv", "new_group", "barrier")]
    kinds = {f.kind for f in seen.flows} - {"send", "barrier", NOTICE, CONNECTION, FOREIGN, NOT_TCP}
    for kind in sorted(kinds | {CARRIED_BY.get(c.op, c.op) for c in calls}):
        reported = [c for c in calls if CARRIED_BY.get(c.op, c.op) == kind]
        moved = _total(f for f in seen.flows if f.kind == kind)
        least = sum(c.bytes_formula for c in reported if c.waited) / ROUNDING - ROUNDING_BYTES
        most = sum(c.bytes_formula * MOVES_AT_MOST.get(c.op, 1.0) * ROUNDING + ROUNDING_BYTES for c in reported)
        names = " or ".join([kind, *(op for op, carrier in CARRIED_BY.items() if carrier == kind)])
        if moved and not reported:
            yield f"gloo's {kind.replace('_', '-')} moved {moved:,} B between the ranks, but no {names} was reported"
        elif not least <= moved <= most:
            yield (f"gloo's {kind.replace('_', '-')} moved {moved:,} B between the ranks, the reported calls account for "
                   f"{sum(c.bytes_formula for c in reported):,.0f} B")
    if _total(f for f in seen.flows if f.kind == "barrier"):
        yield "data crossed in gloo's barrier"


def _sends(look: Look, seen: Observed) -> Iterator[str]:
    """Number and bytes of the messages from each rank to each other.

    Nobody can tell whose a connection was that was closed too soon, as when a group that the function made is destroyed;
    its messages may be anybody's.
    """
    trace, n = look.evidence.trace, look.case.world_size
    lost = [f for f in seen.flows if f.kind == "send" and (f.source is None or f.target is None)]
    if lost and not trace.of(op="new_group"):
        yield f"{_count(lost)} messages crossed on connections that no reported group accounts for"
    for source in range(n):
        for target in range(n):
            flows = [f for f in seen.flows if (f.source, f.target, f.kind) == (source, target, "send")]
            yield from _sends_between(source, target, flows, lost, trace.of(source))


def _sends_between(source: int, target: int, flows: list[Flow], lost: list[Flow], calls: list[Call]) -> Iterator[str]:
    sends = [c for c in calls if c.op == "send" and c.peer == target]
    sure = [c for c in sends if c.waited]
    barriers = sum(c.op == "barrier" and c.members[0] in (source, target) and target in c.members for c in calls)
    number, size = _count(flows), _total(flows)
    few = len(sure) <= number + _count(lost) and sum(c.bytes for c in sure) <= size + _total(lost)
    many = number <= len(sends) + barriers and size <= sum(c.bytes for c in sends) + barriers * MONITORED_BARRIER_BYTES
    if not (few and many):
        yield (f"rank {source} sent rank {target} {_messages(number)} of {size:,} B in all, but reported "
               f"{_messages(len(sends))} of {sum(c.bytes for c in sends):,} B")


def _setting_up(look: Look, seen: Observed) -> Iterator[str]:
    """Connections that belong to no group, and data told to the store where groups meet."""
    groups = [(c.rank, set(c.shape)) for c in look.evidence.trace.of(op="new_group")]
    groups += [(rank, set(members)) for rank in range(look.case.world_size) for members in look.case.groups or ()]
    allowed = sum(STORE_BYTES + STORE_BYTES_PER_MEMBER * len(members) for _, members in groups)
    if seen.store_bytes > allowed:
        yield f"{seen.store_bytes:,} B went to the store, which is for making groups: the calls account for {allowed:,} B"
    for pair in {frozenset((f.source, f.target)) for f in seen.flows if f.kind == CONNECTION} - {frozenset([None])}:
        number = _count(f for f in seen.flows if f.kind == CONNECTION and {f.source, f.target} == pair)
        shared = sum(rank == min(pair) and pair <= members for rank, members in groups) if None not in pair else number
        if len(pair) == 2 and number > 1 + shared:
            a, b = sorted(pair)
            yield f"ranks {a} and {b} were connected {number} times, their groups account for {1 + shared}"


def _total(flows) -> int:
    return sum(f.bytes for f in flows)


def _count(flows) -> int:
    return sum(f.messages for f in flows)


def _messages(number: int) -> str:
    return f"{number} message{'s' * (number != 1)}"


def _between(flow: Flow) -> str:
    known = None not in (flow.source, flow.target)
    return f"connections (from rank {flow.source} to rank {flow.target})" if known else "connections"
