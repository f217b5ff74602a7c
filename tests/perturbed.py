"""What ranks could have left behind instead: evidence with a call more, a wait forgotten, bytes doubled, ..."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from grader.evidence.evidence import Evidence
from utils.trace.memory import RankMemory
from utils.trace.source import Line
from utils.trace.trace import Call, Span, Trace

Calls = list[Call]
LATE_S = 1e6


def perturbed(evidence: Evidence) -> Iterator[tuple[str, Evidence]]:
    """(what is otherwise, the evidence)"""
    trace = evidence.trace
    for name, calls in _calls(trace):
        yield name, replace(evidence, trace=_with(trace, calls, trace.spans))
    for name, spans in _spans(trace):
        yield name, replace(evidence, trace=_with(trace, trace.calls, spans))
    for times in (0, 100):
        yield f"memory times {times}", replace(evidence, memory=[_held(own, times) for own in evidence.memory])
    yield "no memory seen", replace(evidence, memory=[None] * len(evidence.memory))
    yield "nothing printed", replace(evidence, prints={})
    yield "printed twice", replace(evidence, prints={rank: [*lines, *lines] for rank, lines in evidence.prints.items()})


def _with(trace: Trace, calls: Any, spans: Any) -> Trace:
    return Trace(trace.world_size, tuple(calls), tuple(spans), trace.wire_bytes, trace.duration_s)


def _held(own: RankMemory | None, times: int) -> RankMemory | None:
    return own and RankMemory({kind: times * size for kind, size in own.now.items()},
                              {kind: times * size for kind, size in own.peak.items()})


def _calls(trace: Trace) -> Iterator[tuple[str, Calls]]:
    ops = list(dict.fromkeys(call.op for call in trace.calls))
    yield "no calls", []
    for op in ops:
        yield f"no {op}", [call for call in trace.calls if call.op != op]
        first = next(call for call in trace.calls if call.op == op)
        last = [call for call in trace.calls if call.op == op][-1]
        yield f"one {op} less", [call for call in trace.calls if call is not first]
        yield f"the last {op} missing", [call for call in trace.calls if call is not last]
        yield f"one {op} more", [*trace.calls, replace(last, number=last.number + 1000)]
        again = [replace(call, number=call.number + 1000) for call in trace.calls if call.op == op]
        yield f"every {op} twice", sorted([*trace.calls, *again], key=lambda call: call.start_s)
        for name, change in _CHANGES.items():
            yield f"{name} of {op}", [change(call) if call.op == op else call for call in trace.calls]
            if name in _OF_ONE:
                yield f"{name} of one {op}", [change(call) if call is last else call for call in trace.calls]
    end = max((call.start_s for call in trace.calls), default=0.0)
    yield "backwards", sorted((replace(call, number=-call.number, start_s=end - call.start_s, end_s=end - call.start_s)
                               for call in trace.calls), key=lambda call: call.start_s)
    for op in ("all_reduce", "broadcast", "reduce", "send", "new_group"):
        for waited in (True, False):
            more = [_call(rank, trace.world_size, op, waited) for rank in range(trace.world_size)]
            yield f"a large {op} more, {'' if waited else 'not '}waited for", [*more, *trace.calls]


def _times(factor: float, call: Call) -> Call:
    return replace(call, bytes=int(factor * call.bytes), bytes_given=int(factor * call.bytes_given),
                   bytes_formula=factor * call.bytes_formula, shape=tuple(int(factor * size) for size in call.shape))


def _moved(by_s: float, call: Call) -> Call:
    return replace(call, start_s=call.start_s + by_s, end_s=call.end_s and call.end_s + by_s,
                   wait_start_s=None if call.wait_start_s is None else call.wait_start_s + by_s)


_CHANGES: dict[str, Callable[[Call], Call]] = {
    "bytes doubled": partial(_times, 2.0),
    "bytes halved": partial(_times, 0.5),
    "bytes times 1000": partial(_times, 1000.0),
    "wait forgotten": lambda call: replace(call, wait_start_s=None),
    "wait at once": lambda call: replace(call, wait_start_s=call.start_s, end_s=call.start_s, is_async=False),
    "wait late": lambda call: replace(call, wait_start_s=call.start_s + LATE_S, end_s=call.start_s + LATE_S),
    "another peer": lambda call: replace(call, peer=(call.peer or 0) + 1, root=(call.root or 0) + 1),
    "another operation": lambda call: replace(call, op="all_to_all" if call.op != "all_to_all" else "broadcast"),
    "the world's group": lambda call: replace(call, group="another", members=(*call.members, 99)),
    "another dtype": lambda call: replace(call, dtype="complex64"),
    "fewer digits": lambda call: replace(call, dtype="float8"),
    "the first member alone": lambda call: replace(call, members=call.members[:1]),
    "another reduction": lambda call: replace(call, reduce_op="product"),
    "written into": lambda call: replace(call, changed=True),
    "synchronous": lambda call: replace(call, is_async=False),
    "asynchronous": lambda call: replace(call, is_async=True),
    "blocked": lambda call: replace(call, blocked_s=LATE_S, waiting_s=0.0),
    "begun early": partial(_moved, -LATE_S),
    "begun late": partial(_moved, LATE_S),
}
_OF_ONE = ("bytes doubled", "wait forgotten", "another peer", "begun late", "begun early")


def _call(rank: int, n: int, op: str, waited: bool) -> Call:
    return Call(rank=rank, number=-1, op=op, group="0", members=tuple(range(n)), peer=(rank + 1) % n, root=0,
                reduce_op="sum", dtype="float32", shape=(1 << 28,), bytes=1 << 30, bytes_given=1 << 30,
                bytes_formula=1 << 30, is_async=True, start_s=0.0, end_s=1.0, wait_start_s=0.0 if waited else None,
                blocked_s=1.0, waiting_s=0.0, source=Line("a cell", 1, "fn", "a call"))


def _spans(trace: Trace) -> Iterator[tuple[str, list[Span]]]:
    for name in dict.fromkeys(span.name for span in trace.spans):
        own = [span for span in trace.spans if span.name == name]
        yield f"no span {name}", [span for span in trace.spans if span.name != name]
        yield f"one span {name} less", [span for span in trace.spans if span is not own[-1]]
        yield f"one span {name} more", [*trace.spans, own[-1]]
        yield f"spans {name} backwards", [span for span in trace.spans if span.name != name] + own[::-1]
        for what, start_s, end_s in (("long", -LATE_S, LATE_S), ("early", -LATE_S, -LATE_S), ("late", LATE_S, LATE_S)):
            yield f"{what} {name}", [replace(span, start_s=span.start_s + start_s, end_s=span.end_s + end_s)
                                     if span.name == name else span for span in trace.spans]
        for fact in dict.fromkeys(fact for span in own for fact in span.facts):
            for what, change in _FACTS.items():
                yield f"{fact} of {name} {what}", [
                    replace(span, facts={**span.facts, fact: change(span.facts[fact])}) if fact in span.facts
                    and span.name == name else span for span in trace.spans]


def _more(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return 10 * value + (1 << 20)
    if isinstance(value, str):
        return f"another {value}"
    if isinstance(value, dict):
        return {key: _more(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(_more, value), *([] if value else ["x"])]
    return 1 if value is None else None


def _less(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0
    if isinstance(value, dict):
        return {key: _less(part) for key, part in value.items()}
    return value[:-1] if isinstance(value, (list, tuple, str)) else None


_FACTS = {"more": _more, "less": _less}
