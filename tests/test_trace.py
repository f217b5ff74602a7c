"""The trace: what is recorded, the bytes, who waited, torch's own engines, and ways out of it."""

import contextlib
import json
import time

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from utils import RankFailed, mark, run_ranks, span
from utils.trace.calls import CallFacts
from utils.trace.trace import build_trace

MIB = 1 << 20


def test_every_field_of_a_collective():
    def reduce(rank):
        group = dist.new_group([1, 2])
        if rank in (1, 2):
            dist.all_reduce(torch.ones(3, 4, dtype=torch.float64), op=dist.ReduceOp.MAX, group=group)

    calls = run_ranks(reduce, 3).trace.of(op="all_reduce")
    assert [c.rank for c in sorted(calls, key=lambda c: c.rank)] == [1, 2]
    call = calls[0]
    assert (call.members, call.dtype, call.shape, call.reduce_op) == ((1, 2), "float64", (3, 4), "MAX")
    assert (call.bytes, call.bytes_given, call.bytes_formula) == (96, 96, 96)
    assert call.end_s > call.start_s >= 0 and not call.is_async and call.waited
    assert call.source.function == "reduce" and "dist.all_reduce(torch.ones(3, 4" in call.source.code


@pytest.mark.parametrize("wait", [
    lambda future: future.wait(), lambda future: future.then(lambda done: done.value()).wait(),
    lambda future: torch.futures.wait_all([future]), lambda future: len(torch.futures.collect_all([future]).wait())],
    ids=["itself", "then", "all", "collected"])
def test_waiting_for_a_future_is_waiting_for_its_call(wait):
    trace = run_ranks(lambda rank: wait(dist.all_reduce(torch.ones(3), async_op=True).get_future()), 2).trace
    assert [call.waited for call in trace.of(op="all_reduce")] == [True, True]


def test_who_asks_again_and_again_and_then_waits_has_waited_since_he_asked():
    def asks(rank):
        time.sleep(0.1 * rank)
        works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(2)]
        while not all(work.is_completed() for work in works):
            pass
        mark("has come")
        works[0].wait()

    trace = run_ranks(asks, 2).trace
    asked, never = trace.of(0)
    has_come = next(span for span in trace.spans if span.rank == 0)
    assert asked.wait_start_s < has_come.start_s - 0.05 and not never.waited


def test_a_message_is_waited_for_once():
    def twice(rank):
        work = dist.isend(torch.ones(3), dst=1 - rank)
        dist.recv(torch.empty(3), src=1 - rank)
        work.wait()
        work.wait()

    with pytest.raises(RankFailed, match="can be waited for once"):
        run_ranks(twice, 2)


FORMULA = [  # call on x of 12 float32 a rank, 3 ranks -> bytes that each rank sends
    (lambda x: dist.all_reduce(x), "all_reduce", [64, 64, 64]),
    (lambda x: dist.broadcast(x, src=1), "broadcast", [32, 32, 32]),
    (lambda x: dist.reduce(x, dst=1), "reduce", [32, 32, 32]),
    (lambda x: dist.all_gather_into_tensor(torch.empty(36), x), "all_gather", [96, 96, 96]),
    (lambda x: dist.all_gather([torch.empty(12)] * 3, x), "all_gather", [96, 96, 96]),
    (lambda x: dist.reduce_scatter_tensor(torch.empty(4), x), "reduce_scatter", [32, 32, 32]),
    (lambda x: dist.gather(x, [torch.empty(12) for _ in range(3)] if dist.get_rank() == 1 else None, dst=1),
     "gather", [48, 0, 48]),
    (lambda x: dist.scatter(torch.empty(4), list(x.chunk(3)) if dist.get_rank() == 1 else None, src=1),
     "scatter", [0, 32, 0]),
    (lambda x: dist.all_to_all_single(torch.empty(12), x), "all_to_all", [32, 32, 32]),
    (lambda x: dist.all_to_all([torch.empty(4) for _ in range(3)], list(x.chunk(3))), "all_to_all", [32, 32, 32]),
    (lambda x: dist.send(x, dst=1) if dist.get_rank() == 0 else dist.recv(x, src=0) if dist.get_rank() == 1 else None,
     "send", [48, 0, 0]),
    (lambda x: dist.barrier(), "barrier", [0, 0, 0]),
]


@pytest.mark.parametrize("call, op, expected", FORMULA, ids=[f"{i}-{case[1]}" for i, case in enumerate(FORMULA)])
def test_bytes_by_the_formula(call, op, expected):
    trace = run_ranks(lambda: (call(torch.ones(12)), None)[1], 3).trace
    assert trace.of(op=op)
    assert [trace.bytes_sent(rank) for rank in range(3)] == expected


def test_bytes_within_a_span():
    def two_spans(rank):
        for name, count in (("first", 2), ("second", 4)):
            with span(name):
                dist.all_reduce(torch.ones(count))

    trace = run_ranks(two_spans, 2).trace
    assert (trace.bytes_sent(0, within="first"), trace.bytes_sent(1, within="second")) == (8, 16)
    with pytest.raises(ValueError, match="rank 1 has no span called 'third'"):
        trace.bytes_sent(1, within="third")


def test_the_short_way_past_the_dispatcher_and_the_long_one_tell_the_same():
    class LookOn(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            return operator(*args, **kwargs or {})

    def both():
        for way in (contextlib.nullcontext, LookOn):
            with way():
                for call, *_ in FORMULA:
                    call(torch.ones(12))

    trace = run_ranks(both, 3, memory=False).trace  # its meter would look on as well
    for rank in range(3):
        told = [(c.op, c.dtype, c.shape, c.bytes, c.bytes_given, c.bytes_formula, c.members, c.root, c.peer, c.reduce_op,
                 c.is_async, c.waited) for c in trace.of(rank)]
        assert told[:len(told) // 2] == told[len(told) // 2:]


def test_a_message_is_asynchronous_if_the_program_began_it_so():
    def exchange(rank):
        x = torch.ones(4)
        if rank == 0:
            dist.send(x, 1)
            dist.isend(x, 1).wait()
        else:
            dist.recv(x, 0)
            dist.irecv(x, 0).wait()

    trace = run_ranks(exchange, 2).trace
    assert [[call.is_async for call in trace.of(rank)] for rank in range(2)] == [[False, True]] * 2


def test_the_short_way_leaves_to_torch_what_is_more_than_numbers():
    """Ranks that are no plain numbers, and views whose numbers are not those in memory."""
    def odd(rank):
        x, gathered = torch.ones(2) * rank, torch.empty(4)
        numbers = np.int64(1 - rank), torch.tensor(1 - rank)
        for peer in numbers:
            work = dist.isend(x, peer)
            dist.recv(gathered[:2], peer)
            work.wait()
        dist.all_gather_into_tensor(gathered, torch._neg_view(torch.ones(2)))
        return gathered.tolist()

    run = run_ranks(odd, 2, memory=False)
    assert run.results == [[-1.0] * 4] * 2
    assert [call.peer for call in run.trace.of(0, "send")] == [1, 1]


@pytest.mark.parametrize("call, op, ratio", [
    (lambda x: dist.all_reduce(x), "all_reduce", 1.0), (lambda x: dist.broadcast(x, src=0), "broadcast", 1.0),
    (lambda x: dist.all_gather_into_tensor(torch.empty(4 * x.numel()), x), "all_gather", 1.0),
    (lambda x: dist.all_to_all_single(torch.empty_like(x), x), "all_to_all", 1.0),
    (lambda x: dist.reduce_scatter_tensor(torch.empty(x.numel() // 4), x), "reduce_scatter", 2.0)],
    ids=lambda v: v if isinstance(v, str) else "")
def test_bytes_on_the_wire(call, op, ratio):
    """gloo's reduce-scatter is an all-reduce inside: twice the formula. The others keep to it."""
    trace = run_ranks(lambda: (call(torch.ones(4 * MIB // 4)), None)[1], 4).trace
    if trace.wire_bytes is None:
        pytest.skip("this system does not count bytes a connection")
    wire, formula = (sum(f(rank) for rank in range(4)) for f in (trace.wire_sent, trace.bytes_sent))
    assert wire / formula == pytest.approx(ratio, rel=0.02)
    assert all(trace.wire_bytes[rank][rank] == 0 for rank in range(4))


def test_asynchronous_calls_overlap_and_forgotten_ones_show():
    def overlaps(rank):
        work = dist.all_reduce(torch.ones(MIB), async_op=True)
        with span("matmul"):
            time.sleep(0.3)
        mark("ready", step=3)
        work.wait()
        dist.all_reduce(torch.ones(4), async_op=True)
        time.sleep(0.2)

    trace = run_ranks(overlaps, 2).trace
    first, second = trace.of(0, "all_reduce")
    (stretch, instant) = [s for s in trace.spans if s.rank == 0]
    assert first.start_s < stretch.start_s < first.end_s < stretch.end_s < first.wait_start_s
    assert first.is_async and first.blocked_s < 0.1 and first.waited
    assert not second.waited and second.end_s is not None
    assert (instant.name, instant.facts) == ("ready", {"step": 3})


def test_a_tensor_that_is_changed_under_way_is_told():
    def divides(rank):
        early, late, row = torch.ones(3), torch.ones(3), torch.ones(2, 3)
        work = dist.all_reduce(early, async_op=True)
        early /= 2
        work.wait()
        dist.all_reduce(late, async_op=True).wait()
        late /= 2
        work = dist.all_reduce(row[0], async_op=True)
        row[1] /= 2  # another part of the same memory
        work.wait()

    assert [call.changed for call in run_ranks(divides, 2).trace.of(0)] == [True, False, False]


def test_what_gloo_fills_is_not_taken_for_changed():
    def fills(rank):
        for fill in (lambda: dist.all_gather_into_tensor(torch.empty(8), torch.ones(4), async_op=True),
                     lambda: dist.all_gather([torch.empty(4), torch.empty(4)], torch.ones(4), async_op=True),
                     lambda: dist.all_to_all([torch.empty(4), torch.empty(4)], [torch.ones(4)] * 2, async_op=True),
                     lambda: dist.reduce_scatter_tensor(torch.empty(4), torch.ones(8), async_op=True),
                     *[lambda: dist.all_reduce(torch.ones(4), dist.ReduceOp.AVG, async_op=True)] * 20):  # now and then
            work = fill()
            time.sleep(0.05)  # its thread is through
            work.wait()

    run = run_ranks(fills, 2, memory=False)
    assert len(run.trace.of(0)) == 24 and not any(call.changed for call in run.trace.calls) and not run.oversights


def test_mistakes_that_a_run_survives_are_told_under_it_with_their_lines(capsys):
    def careless(rank):
        x = torch.ones(3)
        work = dist.all_reduce(x, async_op=True)  # one
        x += 1
        work.wait()
        dist.all_gather([x] * 2, torch.ones(3))  # two
        for _ in range(3):
            kept = dist.all_reduce(x, async_op=True)  # three
        dist.barrier()
        if rank == 0:
            x /= 2
            dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
        else:
            dist.all_reduce(torch.ones(3))
        return kept.is_completed()

    run = run_ranks(careless, 2)
    told = ["changed a tensor of all_reduce before its wait() (", "gave all_gather the same tensor several times",
            "never waited for all_reduce"]
    assert capsys.readouterr().out.splitlines() == run.oversights and len(run.oversights) == 3
    for line, words, number in zip(run.oversights, told, ("one", "two", "three"), strict=True):
        assert line.startswith(f"Note: ranks 0 and 1 {words}") and f"# {number})" in line


def test_waiting_is_told_from_communicating():
    def late(rank):
        if rank == 1:
            time.sleep(0.5)
        dist.all_reduce(torch.ones(4))

    calls = {c.rank: c for c in run_ranks(late, 2).trace.calls}
    assert calls[0].waiting_s > 0.3 and calls[0].blocked_s >= calls[0].waiting_s
    assert calls[1].waiting_s < 0.1


def torch_ddp():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()


def torch_fsdp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(torch.nn.Linear(4, 4), mesh=init_device_mesh("cpu", (2,)))
    model(torch.ones(2, 4)).sum().backward()


def torch_tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))
    parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "1": RowwiseParallel()})
    model(torch.ones(2, 4)).sum().backward()


def torch_pipeline(rank):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage = PipelineStage(torch.nn.Linear(4, 4), rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=lambda output, target: (output - target).sum())
    if rank == 0:
        schedule.step(torch.ones(4, 4))
    else:
        schedule.step(target=torch.ones(4, 4))


@pytest.mark.parametrize("engine, expected", [
    (torch_ddp, {"all_gather", "broadcast", "all_reduce"}), (torch_fsdp, {"all_gather", "reduce_scatter"}),
    (torch_tensor_parallel, {"all_reduce"}), (torch_pipeline, {"send", "recv"})], ids=lambda v: getattr(v, "__name__", ""))
def test_calls_of_torchs_own_engines_are_seen(engine, expected):
    trace = run_ranks(engine, 2).trace
    assert expected <= {c.op for c in trace.calls}
    assert {c.source.place for c in trace.calls if c.source} == {"test_trace.py"}


def test_ways_out(tmp_path):
    def talks(rank):
        x = torch.ones(8)
        dist.all_reduce(x)
        dist.send(x, dst=1) if rank == 0 else dist.recv(x, src=0)

    trace = run_ranks(talks, 2).trace
    rows = trace.rows()
    assert len(rows) == 4 and {"rank", "op", "bytes_formula", "start_s", "source"} <= set(rows[0])
    trace.to_chrome(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert {e["name"] for e in document["traceEvents"] if e["ph"] == "X"} == {"all_reduce", "send", "recv"}
    assert trace.traffic_matrix() == [[0, 32], [0, 0]]
    assert "all_reduce" in str(trace.summary()) and "rank" in str(trace)
    assert "<img" in trace._repr_html_() or "<svg" in trace._repr_html_()


def test_without_a_trace_nothing_is_recorded():
    run = run_ranks(lambda: dist.barrier(), 2, trace=False, memory=False)
    assert run.trace.calls == () and run.memory == [None, None] and run.trace.wire_bytes is None


def test_a_rank_that_is_not_there_is_refused():
    trace = run_ranks(dist.barrier, 2).trace
    for ask in (trace.of, trace.bytes_sent, trace.wire_sent):
        with pytest.raises(ValueError, match=r"no rank 17 in this run of 2 \(0 to 1\)"):
            ask(17)


def test_a_receive_from_anybody_waits_for_whom_it_heard_and_not_for_who_came_last():
    """Ranks 2 and 1 send, in this order; what each receive waited for is when its own sender came."""
    about = dict(group="0", members=[0, 1, 2], dtype="float32", shape=[1], bytes=4, is_async=True)
    message, receive = CallFacts(op="send", peer=0, **about), CallFacts(op="recv", **about)
    events = [(0, "call", {"facts": receive, "number": 0, "time": 0.0}), (0, "wait", {"number": 0, "time": 0.0}),
              (1, "call", {"facts": message, "number": 0, "time": 3.0}),  # its report is read first
              (2, "call", {"facts": message, "number": 0, "time": 1.0}),
              (0, "woke", {"number": 0, "time": 2.0, "sender": 2}),
              (0, "call", {"facts": receive, "number": 1, "time": 2.0}),
              (0, "wait", {"number": 1, "time": 2.0}), (0, "woke", {"number": 1, "time": 3.5, "sender": 1})]
    first, second = build_trace(3, events, None).of(0)
    assert (first.waiting_s, second.waiting_s) == (1.0, 1.0) and first.peer is None
