"""The programs of all ranks, recorded in a few processes side by side."""

import contextlib
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
from utils.simulation.exchange import Key, Numbers
from utils.simulation.program import Program
from utils.simulation.refusals import NeedsNumbers

PRELOAD = ("utils.simulation.program", "torch._dynamo")
FEWEST_RANKS_A_PROCESS = 4
GRACE_S = 30.0
EVERY_S = 1.0
ENDED = {"type": "RankDied", "message": "its process ended without returning (os._exit(), or no memory left?)",
         "frames": [], "notes": []}


def record_all(task: bytes, inputs: Sequence[bytes], device: Device, timeout_s: float) -> list[Program]:
    """One program a rank, in order. task: a packed NotebookTask; inputs: one blob a rank.

    A rank that needs numbers of others is recorded again once these have told them.
    """
    n = len(inputs)
    n_processes = max(1, min(os.cpu_count() or 1, n // FEWEST_RANKS_A_PROCESS))
    processes, connections, surroundings = [], [], Surroundings.here()
    programs: dict[int, Program] = {}
    known: dict[Key, Numbers] = {}
    try:
        for _ in range(n_processes):
            near, far = Pipe()
            connections.append(near)
            with far:
                processes.append(start_process(_record_shares, surroundings, [far], PRELOAD))
            near.send_bytes(pickle.dumps((task, n, device, timeout_s)))
        todo = list(range(n))
        while todo:
            for first, connection in enumerate(connections):
                share = [(rank, inputs[rank]) for rank in todo[first::n_processes]]
                with contextlib.suppress(BrokenPipeError):  # it has ended, as will be seen
                    connection.send_bytes(pickle.dumps((share, known)))
            came, begun = _collected(connections, timeout_s)
            programs |= {program.rank: program for program in came}
            if missing := {*todo} - {program.rank for program in came}:
                if not any(_is_final(program) for program in came):
                    raise RankFailed([to_failure(min(missing & begun or missing), ENDED)], [])
                break
            for program in came:
                known |= program.told
            stopped = any(program.error for program in programs.values())
            todo = [rank for rank, program in sorted(programs.items())
                    if (stopped or program.was_given_unknown) and not program.missed.isdisjoint(known)]
        return [program for _, program in sorted(programs.items())]
    finally:
        for _, program in sorted(programs.items()):
            for stream, text in zip((sys.stdout, sys.stderr), program.printed, strict=True):
                stream.write(text)
        for connection in connections:
            connection.close()
        for process in processes:
            process.kill()
            process.join(5.0)
            process.close()


def _is_final(program: Program) -> bool:
    """Whether it has an error that no number of another rank would help.

    A rank that was given an unknown number may have failed because of it, whatever torch or the program made of that.
    """
    if program.error is None or not program.missed:
        return program.error is not None
    return program.error["type"] != NeedsNumbers.__name__ and not program.was_given_unknown


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
            except (EOFError, ConnectionResetError):
                came = None
            if came is None:
                open_ones.remove(connection)
            elif isinstance(came, int):
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
            members = facts.members
            if id(members) not in shared:
                shared[id(members)] = members, lists.setdefault(tuple(members), members)
            facts.members = shared[id(members)][1]


def _record_shares(connection: Connection, surroundings: Surroundings) -> None:
    """In a process of its own: record these ranks, one after the other, and others when asked, until nobody asks."""
    import torch

    from utils.simulation.program import RankRecorder

    surroundings.take_over()
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):  # nobody asks any more, or never did
        recorder = RankRecorder(*pickle.loads(connection.recv_bytes()))
        while True:
            ranks, known = pickle.loads(connection.recv_bytes())
            _record_share(connection, recorder, ranks, known)
    os._exit(0)


def _record_share(connection: Connection, recorder, ranks: Sequence[tuple[int, bytes]], known: dict[Key, Numbers]) -> None:
    """Tell which one begins, send what is there, and None at the end; what one rank tells, the next one knows.

    Programs are sent every second: what they have in common, such as the facts of a mesh's groups, then travels once.
    """
    programs, sent_at = [], time.monotonic()
    for at, (rank, input_blob) in enumerate(ranks):
        connection.send_bytes(pickle.dumps(rank))
        program = recorder.record(rank, input_blob, known)
        known |= program.told
        if at == 0:  # what stays, the collector need not look through again and again
            gc.collect()
            gc.freeze()
        if at == len(ranks) - 1:
            program.process_bytes = _most_bytes_taken()
        programs.append(program)
        if _is_final(program) or at == len(ranks) - 1 or time.monotonic() > sent_at + EVERY_S:
            connection.send_bytes(pickle.dumps(programs, protocol=5))
            programs, sent_at = [], time.monotonic()
        if _is_final(program):
            break
    connection.send_bytes(pickle.dumps(None))


def _most_bytes_taken() -> int:
    """By this process, in the memory of the machine, at any moment."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10  # Linux counts KiB
