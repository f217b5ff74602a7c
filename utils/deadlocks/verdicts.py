"""The words for a run that stands still: which rank waits for whom, in which call, at which line, and what may fix it."""

from utils.deadlocks.errors import FEW, Deadlock, Mismatch, Standstill, ranks_in_words
from utils.deadlocks.waits import BLOCKED, ENDED, Disagreement, WaitState
from utils.trace.calls import POINT_TO_POINT, CallFacts, peer_of, root_of
from utils.trace.pairing import Posted
from utils.trace.source import to_line

_MISMATCH_FIXES = {
    "operation": "every rank of a group must make the same calls in the same order: compare the two lines above.",
    "threads": "calls of a thread come between those of the main thread, in another order on each rank: give the thread a "
               "group of its own (dist.new_group).",
    "dtype": "give all these calls tensors of the same dtype (tensor.to(dtype)).",
    "size": "give all these calls tensors with the same number of elements (pad, or agree on sizes first).",
    "root": "pass the same root (src= or dst=) on every rank; it is a rank number, not this rank's own.",
    "reduce_op": "pass the same op= on every rank. This would not hang: it would give a silently wrong result.",
    "splits": "what rank i sends to rank j must be as long as what rank j expects from rank i.",
    "ranks": "every rank must call new_group with the same list of ranks, members or not, in the same order.",
    "groups made": "with use_local_synchronization torch names a group by how many groups a rank is in already, so members "
                   "that are in more groups than others never meet: leave it out and make every group on every rank, in the "
                   "same order.",
    "members": "call new_group on every rank, members or not, in the same order, and use the group on its members only; "
               "with use_local_synchronization, on every member. gloo may let the others go on, but then names of later "
               "groups differ, and their calls hang.",
}


def waiting_ranks(state: WaitState) -> list[Standstill]:
    """Where each blocked rank stands."""
    return [_standstill(state, rank) for rank, stands in enumerate(state.ranks) if stands.state == BLOCKED]


def mismatch_verdict(disagreement: Disagreement) -> Mismatch:
    """Calls that meet but cannot fit, or that some ranks have left out."""
    what, calls = disagreement.what, {rank: call.facts for rank, call in sorted(disagreement.posted.items())}
    stands = [Standstill(rank, f"called {call_in_words(call, what)}", to_line(call.source))
              for rank, call in calls.items()]
    if what == "members":
        absent = sorted(disagreement.absent)
        stands += [Standstill(rank, "has returned without it") for rank in absent]
        headline = f"{ranks_in_words(absent)} left out a new_group that other ranks made."
        return Mismatch("member does not join", headline, stands, _MISMATCH_FIXES[what])
    if what == "groups made":
        headline = f"{ranks_in_words([*calls])} make a group, and were in different numbers of groups before."
        return Mismatch(f"{what} differs", headline, stands, _MISMATCH_FIXES[what])
    who, rank_of = ranks_in_words([*calls]), {call.op: rank for rank, call in calls.items()}
    if rank_of.keys() == {"send", "recv"}:
        sender, receiver = rank_of["send"], rank_of["recv"]
        headline = f"{who} disagree about the {_spoken(what)} in a message from rank {sender} to rank {receiver}."
    elif what == "operation":
        headline = f"{who} disagree about the operation that comes next."
    else:
        headline = f"{who} disagree about the {_spoken(what)} in {min(rank_of)}."
    fix = _MISMATCH_FIXES["threads" if any(call.thread for call in calls.values()) else what]
    return Mismatch(f"{what} differs", headline, stands, fix)


def deadlock_verdict(state: WaitState, stuck: frozenset[int]) -> Deadlock:
    """Ranks that can never move again."""
    ranks = sorted(stuck)
    missing = {rank: set(state.missing(rank)) for rank in ranks}
    cycle = _in_cycles(missing)
    culprits = cycle or [rank for rank in ranks if missing[rank] - stuck] or ranks
    told = ranks if len(ranks) <= FEW else culprits + sorted(stuck - set(culprits))  # of many, the first are shown
    stands = [_standstill(state, rank) for rank in told]
    waited_for = sorted(set().union(*missing.values()) - stuck)
    stands += [Standstill(rank, _whereabouts(state, rank)) for rank in waited_for]
    kind, fix = _diagnose(state, missing, cycle, culprits)
    stands += [_thread_stands(state, rank, number) for rank in ranks for number in state.ranks[rank].threads_wait_for]
    fix += _about_threads(state, ranks)
    who, one = ranks_in_words(ranks), len(ranks) == 1
    return Deadlock(kind, f"{who} {'waits' if one else 'wait'} for a call that can never come.", stands, fix)


def call_in_words(call: CallFacts, detail: str = "") -> str:
    """"all_reduce(op=SUM) of float32[4, 2]" with what matters for `detail`."""
    arguments = []
    if call.op == "send":
        arguments.append(f"dst={peer_of(call)}")
    elif call.op == "recv":
        arguments.append("src=any" if call.peer is None else f"src={peer_of(call)}")
    if call.tag:
        arguments.append(f"tag={call.tag}")
    if call.root is not None:
        arguments.append(f"root={root_of(call)}")
    if (call.reduce_op and call.reduce_op != "SUM") or detail == "reduce_op":
        arguments.append(f"op={call.reduce_op}")
    text = f"{call.op}({', '.join(arguments)})" if arguments else call.op
    if call.op == "new_group":
        text = f"new_group({_numbers(call.shape)})"
        return f"{text} while in {call.made} group{'s' * (call.made > 1)}" if detail == "groups made" else text
    if call.dtype:
        sizes = ", ".join(map(str, call.shape))
        text = f"{text} of {call.dtype}[{sizes}]"
    if call.thread:
        text = f"{text} in its thread {call.thread}"
    if detail == "splits" and call.splits:
        sent, expected = map(_numbers, call.splits)
        text = f"{text}, sending {sent} and expecting {expected} elements"
    return text


def _numbers(numbers: list[int]) -> str:
    """[0, 1, 2], or the first of many."""
    if len(numbers) <= 2 * FEW:
        return str(numbers)
    return f"[{', '.join(map(str, numbers[:FEW]))}, … {len(numbers):,} in all]"


def _standstill(state: WaitState, rank: int) -> Standstill:
    blocked, missing = state.ranks[rank], state.missing(rank)
    call = blocked.awaited.facts
    where = call_in_words(call)
    if len(call.members) < len(state.ranks):
        where = f"{where} on the group of {ranks_in_words(call.members)}"
    if not missing:
        what = f"is about to go on in {where}"
    elif call.is_from_anybody and len(missing) > 1:
        what = f"waits for one of {ranks_in_words(missing)} in {where}"
    else:
        what = f"waits for {ranks_in_words(missing)} in {where}"
    return Standstill(rank, what, to_line(blocked.wait_source or call.source))


def _thread_stands(state: WaitState, rank: int, number: int) -> Standstill:
    call, missing = state.ranks[rank].calls[number].facts, state.missing(rank, number)
    return Standstill(rank, f"waits for {ranks_in_words(missing)}, too, in {call_in_words(call)}", to_line(call.source))


def _about_threads(state: WaitState, ranks: list[int]) -> str:
    """What to add where ranks that stand still have threads with nothing to do."""
    idle: dict[str, list[int]] = {}
    for rank in ranks:
        for name in state.ranks[rank].idle_threads or ():
            idle.setdefault(name, []).append(rank)
    if not idle:
        return ""
    told = ", ".join(f"{name} on {ranks_in_words(having)}" for name, having in [*idle.items()][:FEW])
    return (f" (These ranks have other threads, which had nothing to do for seconds: {told}. If one of them was still to "
            "communicate, the run was ended too early.)")


def _whereabouts(state: WaitState, rank: int) -> str:
    stands = state.ranks[rank]
    if stands.state != ENDED:
        return "is still working"
    last = max(stands.calls.values(), key=lambda call: call.number, default=None)
    if last is None:
        return {"returned": "has returned without any communication", "raised": "has raised without any communication",
                "died": "is gone without any communication"}[stands.ending]
    call = call_in_words(last.facts)
    return {"returned": f"has returned after {call}", "raised": f"has raised after {call}",
            "died": f"is gone after {call}"}[stands.ending]


def _diagnose(state: WaitState, missing: dict[int, set[int]], cycle: list[int], culprits: list[int]) -> tuple[str, str]:
    """(kind, fix) for a standstill: for the ranks that it comes from, not for those who wait behind them in line."""
    for rank in missing:
        if dropped := state.dropped_partner(rank):
            return "dropped message", (f"rank {dropped.rank} started the matching {dropped.facts.op} "
                                       f"({to_line(dropped.facts.source)}) but threw its Work away: keep what it returns, "
                                       "and wait() for it.")
    calls = {rank: state.ranks[rank].awaited.facts for rank in culprits}
    all_have_mail = all(call.op == "recv" and state.messages_for(rank) for rank, call in calls.items())
    for rank in culprits:
        if stray := _stray(state, rank, calls[rank], bool(cycle), all_have_mail):
            return _wrong_address(rank, calls[rank], stray)
    if cycle:
        return _cycle_fix(state, cycle, calls)
    return _absent_partner(state, culprits, calls, sorted(set().union(*missing.values()) - {*missing}))


def _in_cycles(waits_for: dict[int, set[int]]) -> list[int]:
    """The ranks that wait, through others or not, for themselves (Warshall's closure, a bit for each rank)."""
    bits = {rank: 1 << at for at, rank in enumerate(waits_for)}
    reached = {rank: sum(bits.get(other, 0) for other in others) for rank, others in waits_for.items()}
    for through, bit in bits.items():
        beyond = reached[through]
        for rank in reached:
            if reached[rank] & bit:
                reached[rank] |= beyond
    return [rank for rank in sorted(bits) if reached[rank] & bits[rank]]


def _stray(state: WaitState, rank: int, call: CallFacts, in_cycle: bool, all_have_mail: bool) -> Posted | None:
    """A message that lies ready for a rank which waits for another one, if it may be the one that was meant.

    One from the awaited rank, with another tag. In a circle any, if all its ranks have one: then all look the wrong way.
    In a line one whose sender can do no more; else it may be what comes later, such as a pipeline's next activations.
    """
    if call.op != "recv":
        return None
    for stray in state.messages_for(rank):
        sender = state.ranks[stray.rank]
        no_more = sender.state == ENDED or sender.waits_for == stray.number
        if peer_of(call) in (None, stray.rank) or (all_have_mail if in_cycle else no_more):
            return stray
    return None


def _cycle_fix(state: WaitState, cycle: list[int], calls: dict[int, CallFacts]) -> tuple[str, str]:
    """(kind, fix) for ranks that wait for each other in a circle."""
    kinds, who = {call.op for call in calls.values()}, ranks_in_words(cycle)
    everybody = len(cycle) == len(state.ranks)
    if kinds == {"recv"} and _have_sent(state, cycle):
        return "cycle of receives", (f"messages have passed between {who} before, and now each of them waits for one that "
                                     "would be sent only after its own receive. Write down in which order each rank sends "
                                     "and receives: one of them must send earlier, or receive later.")
    if kinds == {"recv"}:
        return "cycle of receives", (f"{'every rank receives' if everybody else who + ' each receive'} first, so nobody "
                                     "sends: let some ranks send first (even ranks send then receive, odd ranks the "
                                     "reverse), or start with isend/irecv.")
    if kinds == {"send"}:
        return "cycle of sends", (f"{'every rank is' if everybody else who + ' are'} sending, and a send ends only "
                                  "when it is received: let some ranks receive first, or start with isend and wait after "
                                  "the receive.")
    if kinds <= POINT_TO_POINT:
        return "cycle of messages", (f"{who} wait for each other, in sends and in receives: write down who sends what to "
                                     "whom in which order, and start sends with isend, so that they hold nobody up.")
    same_members = len({tuple(call.members) for call in calls.values()}) == 1
    return "opposite order" if same_members else "member does not join", (
        "these ranks wait for each other in different calls: make the calls in the same order on every rank, and "
        "let every member of a group join each of its calls.")


def _have_sent(state: WaitState, ranks: list[int]) -> bool:
    """Whether some of these ranks have sent to others of them: then it is no matter of who begins."""
    return any(call.facts.op == "send" and peer_of(call.facts) in ranks
               for rank in ranks for call in state.ranks[rank].calls.values())


def _wrong_address(rank: int, call: CallFacts, stray: Posted) -> tuple[str, str]:
    if peer_of(call) in (None, stray.rank):
        sender = f"anybody, and rank {stray.rank} sent" if call.peer is None else f"rank {stray.rank}, which sent"
        return "tags differ", (f"rank {rank} receives tag {call.tag} from {sender} tag "
                               f"{stray.facts.tag} (or on another group): use the same tag and group on both sides.")
    return "receive from the wrong rank", (f"a message from rank {stray.rank} lies ready for rank {rank}: receive "
                                           f"with src={stray.rank}, or send it from the rank you meant.")


def _absent_partner(state: WaitState, ranks: list[int], calls: dict[int, CallFacts], missing: list[int]) -> tuple[str, str]:
    call = calls[ranks[0]]
    absent = ranks_in_words(missing)
    peer = f"{ranks[0]}, tag={call.tag}" if call.tag else str(ranks[0])
    if call.op == "send":
        return "send without receive", f"let {absent} receive it: recv(..., src={peer})."
    if call.op == "recv" and call.is_from_anybody and len(missing) > 1:
        return "receive without send", f"let one of {absent} send a message: send(..., dst={peer})."
    if call.op == "recv":
        return "receive without send", f"let {absent} send it: send(..., dst={peer})."
    if any(state.ranks[m].ending == "returned" for m in missing):
        early = any(state.ranks[m].calls for m in missing)
        return ("rank returned early" if early else "rank never calls"), (
            f"{absent} must call {call.op} too: look for an if, a return or a loop bound that leaves it out.")
    return "member does not join", f"every member of the group must make this call: {absent} did not."


def _spoken(what: str) -> str:
    return {"reduce_op": "reduce operation", "splits": "split sizes", "ranks": "members"}.get(what, what)
