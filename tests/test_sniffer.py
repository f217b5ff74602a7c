"""The witness outside the ranks: it understands gloo, misses nothing in silence, and no honest call contradicts it."""

import dataclasses
import random
import struct

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from grader.calling.collect import Candidate
from grader.calling.handing_out import given
from grader.evidence import parcel
from grader.evidence.case import Case
from grader.evidence.evidence import RETURNED, Evidence
from grader.evidence.traffic import Flow, Observed
from grader.judging.demands import network_agrees
from grader.judging.exercise import Look
from grader.sandbox import accept
from grader.sandbox import bubblewrap as sandbox
from grader.sandbox.bubblewrap import Limits
from grader.sandbox.collect import job_files
from grader.sandbox.streams import Connection, Direction, GlooParser, Segment, opens, summed
from grader.sandbox.witness import read_packet, read_segment
from tests.course import SANDBOX
from utils.trace.trace import Trace

needs_sandbox = pytest.mark.skipif(not SANDBOX, reason="needs bubblewrap")
A, B = (bytes([127, 0, 0, 1]), 4000), (bytes([127, 0, 0, 1]), 5000)


# ── gloo's messages ──


def message(prefix: int, size: int, tag: int = 0) -> bytes:
    return struct.pack("=6Q", 48 + size, 1, prefix << 56 | tag, 0, size, 0) + random.randbytes(size)


def notice(opcode: int = 2, size: int = 7) -> bytes:
    return struct.pack("=6Q", 48, opcode, 0, 0, size, 0)


STREAM = message(0, 100, tag=5) + notice() + message(4, 70_000) + message(0, 0) + message(8, 12) + notice(3)
EXPECTED = {"send": (2, 100), "notice": (2, 0), "all_reduce": (1, 70_000), "all_to_all": (1, 12)}


def counts(parser: GlooParser) -> dict:
    return {kind: (number, parser.bytes[kind]) for kind, number in parser.messages.items()}


@pytest.mark.parametrize("seed", range(5))
def test_messages_are_counted_however_the_stream_is_cut(seed):
    numbers, parser, rest = random.Random(seed), GlooParser(handshake=True), memoryview(bytes(8) + STREAM)
    while rest:
        size = numbers.choice([1, 7, 48, 1000, 65_483])
        parser.take(rest[:size])
        rest = rest[size:]
    assert counts(parser) == EXPECTED and parser.unread == 0


@pytest.mark.parametrize("seed", range(5))
def test_each_byte_counts_once_whatever_the_order_of_packets(seed):
    numbers, start = random.Random(seed), (1 << 32) - 5000  # the sequence number passes zero on the way
    direction, packets, at = Direction(start, GlooParser(handshake=False)), [], 0
    while at < len(STREAM):
        size = numbers.randint(1, 3000)
        packets.append((at, STREAM[at:at + size]))
        at += size
    packets += numbers.sample(packets, 5)  # sent again
    for place in range(0, len(packets), 4):
        part = packets[place:place + 4]
        numbers.shuffle(part)
        for at, payload in part:
            direction.take((start + at) & 0xFFFFFFFF, memoryview(payload), len(payload))
    assert counts(direction.parser) == EXPECTED and direction.complete and direction.total == len(STREAM)


def test_what_is_missing_makes_it_incomplete():
    hole, cut = (Direction(0, GlooParser(handshake=False)) for _ in range(2))
    hole.take(10, memoryview(b"x" * 5), 5)
    cut.take(0, memoryview(b"x" * 5), 50)
    assert not hole.complete and not cut.complete


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n" * 10, struct.pack("=6Q", 999, 1, 0, 0, 100, 0) + bytes(100)])
def test_what_is_not_gloo_is_said_to_be_foreign(words):
    parser = GlooParser(handshake=False)
    parser.take(memoryview(message(0, 10) + words))
    assert counts(parser) == {"send": (1, 10), "not gloo": (1, len(words))}


def packet(source, target, sequence: int, flags: int, payload: bytes = b"") -> bytes:
    tcp = struct.pack("!HHIIBBHHH", source[1], target[1], sequence, 0, 5 << 4, flags, 0, 0, 0) + payload
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, source[0], target[0]) + tcp


def test_a_connection_from_packets():
    caught = [packet(A, B, 100, 0x02), packet(B, A, 900, 0x12), packet(A, B, 101, 0x18, bytes(8) + message(6, 40)),
              packet(B, A, 901, 0x18, message(0, 3))]
    segments = [read_segment(*read_packet(memoryview(one), len(one))[1:]) for one in caught]
    assert opens(segments[0]) and not opens(segments[1])
    connection = Connection(segments[0])
    for segment in segments:
        connection.take(segment)
    connection.owners = {A: 2, B: 0}
    assert connection.complete and set(summed(connection.flows())) == {
        Flow(2, 0, "broadcast", 1, 40), Flow(0, 2, "send", 1, 3), Flow(2, 0, "connection", 1, 0)}


def test_a_few_bytes_that_are_no_message_are_foreign():
    connection = Connection(Segment(A, B, 0, 0x02, memoryview(b""), 0))
    connection.take(Segment(A, B, 1, 0x18, memoryview(b"secret"), 6))
    assert Flow(None, None, "not gloo", 1, 6) in connection.flows()


# ── in the sandbox, as in marking ──


def size_of(group):
    return dist.get_rank(group), dist.get_world_size(group)


def all_reduce(x, group):
    dist.all_reduce(x, group=group)
    dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MAX, group=group)
    dist.all_reduce(torch.ones(0), group=group)
    dist.all_reduce(torch.ones(1 << 19, dtype=torch.bfloat16), group=group, async_op=True).wait()
    dist.all_reduce_coalesced([x, x.clone()], group=group)


def broadcast(x, group):
    dist.broadcast(x, group=group, group_src=size_of(group)[1] - 1)
    dist.broadcast(torch.ones(0), group=group, group_src=0)
    dist.broadcast_object_list([{"a": 1}], group=group, group_src=0)


def reduce(x, group):
    for root in range(size_of(group)[1]):
        dist.reduce(x[:len(x) - root].clone(), group=group, group_dst=root)


def reduce_scatter(x, group):
    _, n = size_of(group)
    dist.reduce_scatter(torch.empty(5), list(torch.ones(n * 5).split(5)), group=group)
    dist.reduce_scatter_tensor(torch.empty(4000), torch.ones(n * 4000), group=group)


def all_gather(x, group):
    r, n = size_of(group)
    dist.all_gather([torch.empty_like(x) for _ in range(n)], x, group=group)
    dist.all_gather_into_tensor(torch.empty(n * 3), torch.ones(3), group=group)
    dist.all_gather_object([None] * n, "x" * (r + 1) * 100, group=group)


def gather(x, group):
    r, n = size_of(group)
    dist.gather(x, [torch.empty_like(x) for _ in range(n)] if r == 1 else None, group=group, group_dst=1)


def scatter(x, group):
    r, n = size_of(group)
    dist.scatter(torch.empty_like(x), [x] * n if r == 1 else None, group=group, group_src=1)


def all_to_all(x, group):
    r, n = size_of(group)
    dist.all_to_all_single(torch.empty(n * (r + 1)), torch.ones(n * (n + 1) // 2), [r + 1] * n, [i + 1 for i in range(n)],
                           group=group)
    dist.all_to_all([torch.empty_like(x) for _ in range(n)], [x] * n, group=group)


def barrier(x, group):
    dist.barrier(group)
    dist.monitored_barrier(group)


def send(x, group):
    r, n = size_of(group)
    for one in (x, torch.ones(0), torch.ones(3, dtype=torch.bfloat16)):
        sending = dist.isend(one, group=group, group_dst=(r + 1) % n, tag=7)
        dist.recv(torch.empty_like(one), group=group, group_src=(r - 1) % n, tag=7)
        sending.wait()
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, group=group, group_peer=(r + 1) % n),
                                    dist.P2POp(dist.irecv, torch.empty_like(x), group=group, group_peer=(r - 1) % n)])
    for work in works:
        work.wait()
    if r == 0:
        for _ in range(n - 1):
            dist.recv(torch.empty_like(x), group=group)  # from anyone
        dist.send_object_list([{"a": 1}], group=group, group_dst=1)
    else:
        dist.send(x, group=group, group_dst=0)
        if r == 1:
            dist.recv_object_list([None], group=group, group_src=0)


def send_that_nobody_receives(x, group):
    r, n = size_of(group)
    work = dist.isend(x, group=group, group_dst=(r + 1) % n, tag=3)
    dist.barrier(group)
    return work is None


def groups_of_their_own(x, group):
    everyone = list(range(dist.get_world_size()))
    for _ in range(3):
        pair = dist.new_group(everyone[:2])
        if dist.get_rank() < 2:
            dist.all_reduce(x, group=pair)
            if dist.get_rank() == 0:
                dist.send(x, 1, group=pair)
            else:
                dist.recv(x, 0, group=pair)
            dist.destroy_process_group(pair)
    local = dist.new_group(everyone, use_local_synchronization=True)
    dist.all_reduce(x, group=local)


def mesh_of_torchs(x, group):
    n = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, n // 2) if n % 2 == 0 else (n, 1), mesh_dim_names=("a", "b"))
    for axis in ("a", "b"):
        mine = mesh.get_group(axis)
        r, n = size_of(mine)
        dist.all_reduce(x, group=mine)
        if n > 1:
            sending = dist.isend(x, group=mine, group_dst=(r + 1) % n)
            dist.recv(torch.empty_like(x), group=mine, group_src=(r - 1) % n)
            sending.wait()


def asks_for_names(x, group):
    import socket

    try:
        socket.gethostbyname("somewhere.example")
    except OSError:
        return


def ddp(x, group):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(40, 30), process_group=group)
    for _ in range(3):
        model(torch.ones(2, 40)).sum().backward()


HONEST = (all_reduce, broadcast, reduce, reduce_scatter, all_gather, gather, scatter, all_to_all, barrier, send,
          send_that_nobody_receives, groups_of_their_own, mesh_of_torchs,
          asks_for_names, ddp)
KINDS = {"reduce_scatter": "all_reduce", "groups_of_their_own": "send", "mesh_of_torchs": "send", "asks_for_names": "",
         "ddp": "all_reduce", "send_that_nobody_receives": "barrier"}
WAY = "calling/with_group.py"
CASES = [Case(f"{n} ranks", tuple({"x": torch.ones(1003)} for _ in range(n))) for n in (2, 4)] + [
    Case("groups", tuple({"x": torch.ones(1003)} for _ in range(5)), ((1, 3, 4), (0, 2)))]


def collected(*functions) -> dict[str, list[Evidence]]:
    """Evidence of each function in each case, from a sandbox."""
    files: dict[str, bytes] = {}
    for function in functions:
        files |= job_files(function.__name__, Candidate(cloudpickle.dumps(function), 60.0, caller=WAY),
                           [given(WAY, case) for case in CASES])
    done = sandbox.run(["-m", "grader.sandbox", "collect", "--isolated"], parcel.to_bytes(files), Limits(wall_s=300.0),
                       may_isolate=True)
    assert done.problem == "", done.log
    found = parcel.from_bytes(done.output)
    return {f.__name__: accept.evidences(f.__name__, found, len(CASES)) for f in functions}


@pytest.fixture(scope="module")
def honest():
    """Collected once: those who look at it share a worker."""
    return collected(*HONEST)


looks_at_honest_calls = pytest.mark.xdist_group("honest calls")


@needs_sandbox
@looks_at_honest_calls
@pytest.mark.parametrize("name", [function.__name__ for function in HONEST])
def test_no_honest_call_contradicts_the_witness(honest, name):
    for case, evidence in zip(CASES, honest[name], strict=True):
        assert evidence.ending == RETURNED, evidence.error
        assert evidence.messages.complete
        met, detail = network_agrees(gate=True).judge(Look(case, [], evidence))
        assert met, (case.name, detail)
        kind = KINDS.get(name, name)
        assert not kind or kind in {flow.kind for flow in evidence.messages.flows}


@needs_sandbox
@looks_at_honest_calls
@pytest.mark.parametrize("name", ["all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather", "gather", "scatter",
                                  "all_to_all", "send"])
def test_calls_that_are_not_reported_contradict_it(honest, name):
    for case, evidence in zip(CASES, honest[name], strict=True):
        silent = dataclasses.replace(evidence, trace=Trace(case.world_size))
        met, detail = network_agrees(gate=True).judge(Look(case, [], silent))
        kind = KINDS.get(name, name).replace("_", "-")
        assert not met and ("reported 0 messages" if name == "send" else f"gloo's {kind} moved") in detail


@needs_sandbox
@looks_at_honest_calls
def test_reports_of_sends_that_were_not_made_contradict_it(honest):
    for case, evidence in zip(CASES, honest["send"], strict=True):
        calls = evidence.trace.calls
        more = next(c for c in calls if c.op == "send" and c.bytes > 0)
        false = dataclasses.replace(evidence.trace, calls=(*calls, more))
        met, detail = network_agrees(gate=True).judge(Look(case, [], dataclasses.replace(evidence, trace=false)))
        assert not met and f"rank {more.rank} sent rank {more.peer}" in detail


def test_an_incomplete_observation_is_not_held_against_anyone():
    flows = (Flow(0, 1, "all_reduce", 1, 1000),)
    case = Case("", ({}, {}))
    for complete in (True, False):
        evidence = Evidence([], RETURNED, Trace(2), loopback_bytes=1200, messages=Observed(complete, flows))
        assert network_agrees(gate=True).judge(Look(case, [], evidence))[0] is not complete


@needs_sandbox
def test_packets_that_found_no_room_are_not_passed_over():
    done = sandbox.run(["-c", """
import socket
from grader.sandbox.witness import Witness
witness, told = Witness(), []
for megabytes in (1, 300):
    witness.begin()
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    taker = server.accept()[0]
    for _ in range(megabytes << 4):
        client.sendall(bytes(1 << 16))
        taker.recv(1 << 16, socket.MSG_WAITALL)
    seen = witness.testify(dict)
    told.append((seen.complete, sum(flow.bytes for flow in seen.flows)))
print(told)
"""], b"", Limits(wall_s=100.0), may_isolate=True)
    assert done.problem == "", done.log
    (first, caught), (second, _) = eval(done.output)
    assert first is True and caught == (1 << 20) - 8 and second is False


def look_for_common_ground(x, group):
    """A rank's try to leave something that another rank might find, by other ways than the network."""
    import os
    import socket

    found = []
    for folder in ("/", "/dev", "/etc", "/course", "/course/utils", "/usr", "/proc/sys/kernel"):
        try:
            os.close(os.open(f"{folder}/hostname" if "proc" in folder else f"{folder}/mine", os.O_WRONLY | os.O_CREAT))
            found.append(folder)
        except OSError:
            pass
    for family, protocol in ((socket.AF_NETLINK, 2), (socket.AF_PACKET, 3), (socket.AF_UNIX, 0)):
        try:
            socket.socket(family, socket.SOCK_RAW, protocol)
            found.append((family, protocol))
        except OSError:
            pass
    try:
        os.openpty()
        found.append("terminals")
    except OSError:
        pass
    dist.barrier(group)
    return str(found)


@needs_sandbox
def test_ranks_have_no_place_in_common():
    for evidence in collected(look_for_common_ground)["look_for_common_ground"]:
        assert set(evidence.outputs) == {"[]"}, evidence.error
