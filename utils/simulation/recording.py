"""The programs of all ranks, recorded in a few processes side by side."""

import gc
import os
import pickle
import resource
import sys
import time
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

from utils.deadlocks.errors import DeadlineExceeded, RankFailed
from utils.ranks.fresh_process import Surroundings
from utils.ranks.place import start_process
from utils.ranks.run import to_failure
from utils.simulation.cluster import Device
from utils.simulation.program import Program

PRELOAD = ("utils.simulation.program", "torch._dynamo")
FEWEST_RANKS_A_PROCESS = 4
GRACE_S = 30.0
EVERY_S = 1.0
ENDED = {"type": "RankDied", "message": "its process ended without returning (os._exit(), or no memory left?)",
         "frames": [], "notes": []}


def record_all(task: bytes, inputs: Sequence[bytes], device: Device, timeout_s: float) -> list[Program]:
    """One program a rank, in order. task: a packed NotebookTask; inputs: one blob a rank."""
    n = len(inputs)
    n_processes = max(1, min(os.cpu_count() or 1, n // FEWEST_RANKS_A_PROCESS))
    shares = [range(first, n, n_processes) for first in range(n_processes)]
    processes, connections, surroundings = [], [], Surroundings.here()
    try:
        for share in shares:
            near, far = Pipe()
            processes.append(start_process(_record_share, surroundings, [far], PRELOAD))
            far.close()
            near.send_bytes(pickle.dumps((task, [(rank, inputs[rank]) for rank in share], n, device, timeout_s)))
            connections.append(near)
        programs, begun = _collected(connections, timeout_s)
        missing = {*range(n)} - {program.rank for program in programs}
        if missing and not any(program.error for program in programs):
            raise RankFailed([to_failure(min(missing & begun or missing), ENDED)], [])
        return sorted(programs, key=lambda program: program.rank)
    finally:
        for connection in connections:
            connection.close()
        for process in processes:
            process.kill()
            process.join(5.0)
            process.close()


def _collected(connections: list[Connection], timeout_s: float) -> tuple[list[Program], set[int]]:
    """The programs that came, and the ranks that each process recorded last."""
    programs: list[Program] = []
    begun: dict[Connection, int] = {}
    open_ones, lists = list(connections), {}
    while open_ones:
        ready = wait(open_ones, timeout_s + GRACE_S)
        if not ready:
            raise DeadlineExceeded(timeout_s, {}, {})
        for connection in ready:
            try:
                came = pickle.loads(connection.recv_bytes())
            except EOFError:
                open_ones.remove(connection)
                continue
            if isinstance(came, int):
                begun[connection] = came
            else:
                _share_members(came, lists)
                programs += came
    return programs, {*begun.values()}


def _share_members(programs: list[Program], lists: dict[tuple, list]) -> None:
    """One list of a group's members for all calls of all ranks: of four thousand ranks each would have its own."""
    for program in programs:
        shared: dict[int, tuple[list, list]] = {}  # id of a list, which most calls of a program have in common -> it, ours
        for facts in program.facts:
            members = facts["members"]
            if id(members) not in shared:
                shared[id(members)] = members, lists.setdefault(tuple(members), members)
            facts["members"] = shared[id(members)][1]


def _record_share(connection: Connection, surroundings: Surroundings) -> None:
    """In a process of its own: record these ranks, one after the other; tell which one begins, send what is there.

    Programs are sent every second: what they have in common, such as the facts of a mesh's groups, then travels once.
    """
    import torch

    from utils.simulation.program import RecordingStudio

    surroundings.take_over()
    torch.set_num_threads(1)
    task, ranks, world_size, device, timeout_s = pickle.loads(connection.recv_bytes())
    studio = RecordingStudio(task, world_size, device, timeout_s)
    programs, sent_at = [], time.monotonic()
    for at, (rank, input_blob) in enumerate(ranks):
        connection.send_bytes(pickle.dumps(rank))
        program = studio.record(rank, input_blob)
        if at == 0:  # what stays, the collector need not look through again and again
            gc.collect()
            gc.freeze()
        if at == len(ranks) - 1:
            program.process_bytes = _most_bytes_taken()
        programs.append(program)
        if program.error or at == len(ranks) - 1 or time.monotonic() > sent_at + EVERY_S:
            connection.send_bytes(pickle.dumps(programs, protocol=5))
            programs, sent_at = [], time.monotonic()
        if program.error:
            break
    connection.close()
    os._exit(0)


def _most_bytes_taken() -> int:
    """By this process, in the memory of the machine, at any moment."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10  # Linux counts KiB
