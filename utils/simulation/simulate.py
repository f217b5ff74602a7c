"""simulate_ranks: the function that run_ranks takes, on a cluster that nobody in the room has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import cloudpickle

from utils.deadlocks.errors import BadType, BadValue, RankFailed
from utils.deadlocks.verdicts import deadlock_verdict, mismatch_verdict
from utils.deadlocks.waits import WaitState
from utils.ranks.payload import NotebookTask, packed_inputs
from utils.ranks.run import Run, checked_timeout, checked_world_size, to_failure
from utils.simulation.cluster import Cluster
from utils.simulation.clusters import cluster_named
from utils.simulation.nccl import nccl_oversights
from utils.simulation.play import Timetable, play
from utils.simulation.program import CALL, WAIT, Program
from utils.simulation.recording import record_all
from utils.simulation.roofline import Work
from utils.trace.memory import RankMemory
from utils.trace.trace import Trace, build_trace

MAX_WORLD_SIZE = 4096
MOST_TRACED = 64  # ranks whose calls are in the trace of a run, unless asked for


@dataclass(frozen=True)
class SimulatedRun(Run):
    """A Run whose times are predicted. elapsed_s: from the first rank's start to the last one's end, on the cluster.

    results: tensors have shapes and no numbers (device "meta"). works[r]: FLOPs, bytes touched, seconds of its computing.
    bytes_by_link: what each kind of link carried; busy_s_by_link: for how long, all links of the kind together.
    """

    cluster: Cluster | None = None
    works: list[Work] = field(default_factory=list)
    bytes_by_link: dict[str, float] = field(default_factory=dict)
    busy_s_by_link: dict[str, float] = field(default_factory=dict)
    programs: Sequence[Program] = field(default=(), repr=False)
    timetable: Timetable | None = field(default=None, repr=False)

    @property
    def flops(self) -> float:
        """Of all ranks together."""
        return sum(work.flops for work in self.works)

    def utilization(self, dtype: str = "bfloat16", model_flops: float | None = None) -> float:
        """FLOPs in the time that passed, as a share of the devices' peak: HFU of all computed ones, MFU of `model_flops`."""
        peak = self.cluster.device.flops.get(dtype)
        if peak is None:
            known = ", ".join(self.cluster.device.flops)
            raise BadValue(f"{self.cluster.device.name} has no peak for {dtype!r}; known: {known}")
        if not self.elapsed_s:
            raise BadValue("no time passed in this run, so it has no utilization: its ranks computed and sent nothing")
        return (self.flops if model_flops is None else model_flops) / (self.elapsed_s * peak * self.world_size)

    def elapsed_after_s(self, name: str) -> float:
        """Seconds from the end of the last span of this name, on any rank, to the run's end.

        Raises: ValueError where there is no such span.
        """
        ends = [span.end_s for span in self.trace.spans if span.name == name]
        if not ends:
            known = ", ".join(sorted({span.name for span in self.trace.spans})) or "none"
            raise BadValue(f"no span of this run is called {name!r}; its spans: {known}")
        return self.elapsed_s - max(ends)

    def trace_of(self, ranks: Sequence[int]) -> Trace:
        """The calls and spans of these ranks: of a run of more than 64, `trace` has those of the first 64 only.

        Raises: ValueError or TypeError for what is no list of ranks of this run.
        """
        if isinstance(ranks, (str, int)) or not hasattr(ranks, "__iter__"):
            raise BadType(f"ranks must be a list of rank numbers, such as [0, 1]; got {ranks!r}")
        wanted = sorted({*ranks})
        if not wanted or not {*wanted} <= {*range(self.world_size)}:
            raise BadValue(f"ranks: some of 0 to {self.world_size - 1}, please; got {list(ranks)}")
        return _trace([self.programs[rank] for rank in wanted], self.timetable)

    def __repr__(self) -> str:
        return f"Simulated run of {self.world_size} ranks on {self.cluster.name}: {self.elapsed_s:.4g} s"


def simulate_ranks(fn: Callable, world_size: int | None = None, cluster: Cluster | str = "H100", *,
                   inputs: Sequence | None = None, timeout_s: float = 120.0) -> SimulatedRun:
    """Call `fn` once for each of `world_size` simulated ranks, and play all of them on a described cluster.

    fn, inputs: as for run_ranks. Tensors have shapes and no numbers, so that nothing large is stored or computed.
    world_size: 1 to 4,096. cluster: a Cluster, or the name of a ready one (utils.simulation.clusters).
    timeout_s: seconds in which each rank's program must have ended here.

    Returns: a SimulatedRun.
    Raises: ValueError or TypeError if an argument cannot work; RankFailed (also where a program looks at numbers that a
        simulation has not), Deadlock, Mismatch.
    Each rank has its own copy of fn, as a real one; what it changes in an imported module stays for those after it.
    Not modelled: what computing and communicating take from each other, launches, stragglers, caches; work.is_completed(),
        which is never true; time.sleep and time.perf_counter, which are those of this machine.
    """
    timeout_s = checked_timeout(timeout_s)
    cluster = cluster if isinstance(cluster, Cluster) else cluster_named(cluster)
    world_size = checked_world_size(world_size, inputs, MAX_WORLD_SIZE)
    if world_size > cluster.n_devices:
        raise BadValue(f"{cluster.name} has {cluster.n_devices:,} devices, fewer than {world_size:,} ranks; take a larger "
                       "cluster, or dataclasses.replace(cluster, n_devices=...)")
    task = NotebookTask.of(fn, has_inputs=inputs is not None)
    blobs = packed_inputs(inputs, world_size)
    programs = record_all(task.packed(), blobs, cluster.device, timeout_s)
    failures = [to_failure(program.rank, program.error) for program in programs if program.error]
    if failures:
        raise RankFailed(failures, [])
    timetable = play(programs, cluster)
    if timetable.disagreement or not all(timetable.ended):
        raise _verdict(programs, timetable)
    run = _run(programs, timetable, cluster)
    for line in run.oversights:
        print(line)
    return run


def _run(programs: list[Program], timetable: Timetable, cluster: Cluster) -> SimulatedRun:
    results = [cloudpickle.loads(program.result) for program in programs]
    memory = [RankMemory(**program.memory) for program in programs]
    return SimulatedRun(
        len(programs), results, _trace(programs[:MOST_TRACED], timetable), memory, elapsed_s=timetable.duration_s,
        cluster=cluster, works=[program.work for program in programs], bytes_by_link=dict(timetable.network.bytes_by_link),
        busy_s_by_link=dict(timetable.network.busy_s_by_link), programs=programs, timetable=timetable,
        oversights=nccl_oversights(programs) if cluster.device.library == "NCCL" else [])


def _trace(programs: Sequence[Program], timetable: Timetable) -> Trace:
    """Of these ranks."""
    n, events = len(timetable.times), [event for program in programs for event in _events(program, timetable)]
    return build_trace(n, events, None, None if len(programs) == n else tuple(program.rank for program in programs))


def _events(program: Program, timetable: Timetable) -> list[tuple[int, str, dict]]:
    """What a recorder would have reported, in order, as far as the rank came."""
    rank = program.rank
    times, done, met = timetable.times[rank], timetable.done[rank], timetable.met[rank]
    events, number = [], 0
    for at, (kind, value) in enumerate(zip(program.kinds, program.values, strict=True)):
        if at >= len(times):
            break
        if kind == CALL and number < len(done):
            told = {"number": number, "time": times[at], "facts": program.facts[int(value)]}
            if met[number] == met[number]:
                told["last_arrival"] = met[number]
            events.append((rank, "call", told))
            if (rank, number) in timetable.given_up:
                events.append((rank, "dropped", {"number": number, "time": times[at]}))
            if done[number] == done[number]:
                sender = timetable.senders.get((rank, number))
                about = {} if sender is None else {"sender": sender}
                events.append((rank, "done", {"number": number, "time": done[number], **about}))
            number += 1
        elif kind == WAIT and int(value) < len(done):
            source = program.wait_sources.get(at)
            events.append((rank, "wait", {"number": int(value), "time": times[at], "alone": True, "source": source}))
            if at + 1 < len(times):
                events.append((rank, "woke", {"number": int(value), "time": times[at + 1]}))
    last = len(times) - 1
    events += [(rank, "span", {"name": name, "start": times[min(a, last)], "end": times[min(b, last)]})
               for name, a, b in program.spans if a <= last]
    events += [(rank, "mark", {"name": name, "time": times[min(at, last)], "facts": facts})
               for name, at, facts in program.marks if at <= last]
    if timetable.ended[rank]:
        events.append((rank, "returned", {"time": times[last]}))
    return events


def _verdict(programs: list[Program], timetable: Timetable):
    """The error that tells why nobody can go on."""
    if timetable.disagreement:
        return mismatch_verdict(timetable.disagreement)
    state = WaitState(len(programs))
    events = [event for program in programs for event in _events(program, timetable)]
    for rank, kind, fields in sorted(events, key=lambda event: event[2].get("time", 0.0)):
        state.ingest(rank, kind, fields)
    if state.disagreement:
        return mismatch_verdict(state.disagreement)
    return deadlock_verdict(state, frozenset(rank for rank, ended in enumerate(timetable.ended) if not ended))
