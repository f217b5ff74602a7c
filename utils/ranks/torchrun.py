"""The same function beyond one machine: a job file in, torchrun (or Slurm, or by hand) in the middle, results out.

    write_job(fn, "job.pkl")                                                            (device="cuda": on their GPUs)
    torchrun --nnodes 2 --nproc-per-node 4 -m utils.ranks.torchrun job.pkl results/     (on every machine)
    run = read_results("results/")

torchrun brings its own launcher and rendezvous; here is only what a rank does between them. Rank 0 hears what all ranks
report, at a port that the system chooses (utils.ranks.oversight): a job that stands still, whose calls don't fit, or that
loses a rank ends with the same error as on one machine. A machine that cannot resolve its own name needs torchrun's
--local-addr and, for gloo, the name of its network interface in GLOO_SOCKET_IFNAME.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cloudpickle
import msgspec
import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from utils.deadlocks.errors import BadValue
from utils.deadlocks.waits import WaitState
from utils.ranks.channel import Channel
from utils.ranks.job import Outcome
from utils.ranks.oversight import Oversight, connected, outcome_in
from utils.ranks.payload import NotebookTask, pack, packed_inputs
from utils.ranks.run import Run, finish
from utils.ranks.worker import NEVER, Inbox, perform
from utils.trace.recorder import Recorder
from utils.trace.reports import ReportReader, as_reported
from utils.trace.spans import RECORDER
from utils.trace.traced_group import start_recording

NO_INPUT = pack(None, "no input")
OTHER_VERSIONS = "this machine has {here}, and the job was written with {there}: install the same versions on every machine"


def write_job(fn: Callable, path: str | Path, inputs: Sequence | None = None, device: str = "cpu") -> Path:
    """Write `fn`, and one input a rank if given, to a file that every machine can read.

    device: "cpu", or "cuda" where every machine has a GPU for each of its ranks.
    Raises: TypeError as run_ranks does; ValueError for another device.
    """
    if device not in ("cpu", "cuda"):
        raise BadValue(f"device must be 'cpu' or 'cuda'; got {device!r}")
    task = NotebookTask.of(fn, has_inputs=inputs is not None).packed()
    blobs = None if inputs is None else packed_inputs(inputs, len(inputs))
    path = Path(path)
    path.write_bytes(cloudpickle.dumps({"task": task, "inputs": blobs, "device": device, "versions": versions()}))
    return path


def versions() -> str:
    """Which Python and torch are here, as far as machines must agree: a function's code is for one of each."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor} and torch {'.'.join(torch.__version__.split('.')[:2])}"


def read_results(folder: str | Path) -> Run:
    """The Run of the ranks that wrote into `folder`. It must be one that you trust: what they returned is unpickled.

    Raises: FileNotFoundError naming the ranks that left nothing; RankFailed, Deadlock or Mismatch as run_ranks does.
    """
    if (seen := outcome_in(Path(folder))) is not None:
        return finish(seen, timeout_s=0.0)
    files = sorted(Path(folder).glob("rank*.json"), key=lambda f: int(f.stem.removeprefix("rank")))
    if not files:
        raise FileNotFoundError(f"no rank has written results to {folder}")
    reports = [json.loads(file.read_text()) for file in files]
    world_size = reports[0]["world_size"]
    if absent := set(range(world_size)) - {report["rank"] for report in reports}:
        raise FileNotFoundError(f"no results in {folder} from ranks {sorted(absent)} of {world_size}")
    outcome = Outcome(WaitState(world_size))
    for report, file in zip(reports, files, strict=True):
        rank = report["rank"]
        outcome.events += [(rank, kind, as_reported(kind, fields)) for kind, fields in report["events"]]
        outcome.memory.update({rank: report["memory"]} if report["memory"] else {})
        if report["error"]:
            outcome.errors.append((rank, report["error"]))
        else:
            outcome.blobs[rank] = file.with_suffix(".pkl").read_bytes()
    return finish(outcome, timeout_s=0.0)


def run_here(job: Path, folder: Path) -> None:
    """What each rank does under torchrun: run the job's function, write rank<r>.json and rank<r>.pkl."""
    content = cloudpickle.loads(job.read_bytes())
    use_gpu = content["device"] == "cuda"
    if use_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.set_default_device("cuda")
    store, rank, world_size = next(rendezvous("env://"))
    oversight = Oversight(world_size, folder, store) if rank == 0 else None
    connection = connected(rank, world_size, store)
    report = _Report(connection and Channel(connection))
    recorder = Recorder(report)
    inbox = report.channel and Inbox(report.channel, recorder, lost=report.lost)
    if oversight is not None and inbox is None:
        oversight.stop()
    start_recording(recorder)
    dist.init_process_group("cpu:gloo,cuda:nccl" if use_gpu else "gloo", store=store, rank=rank, world_size=world_size,
                            timeout=NEVER if inbox else None)
    RECORDER.set(recorder)
    perform(report, recorder, True, True, _blobs_of(content, rank).__next__)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"rank{rank}.pkl").write_bytes(report.blob)
    facts = {"rank": rank, "world_size": dist.get_world_size(), **report.facts}
    (folder / f"rank{rank}.json").write_text(json.dumps(facts, default=msgspec.to_builtins))
    if inbox is not None:
        inbox.leave.wait()  # who ends before the others would look like one that is lost
    if oversight is not None:
        oversight.wait()
    dist.destroy_process_group()


def _blobs_of(content: dict, rank: int) -> Iterator[bytes]:
    """The task, then this rank's input.  Raises: RuntimeError where the job was written with other versions."""
    if content["versions"] != versions():
        raise RuntimeError(OTHER_VERSIONS.format(here=versions(), there=content["versions"]))
    yield content["task"]
    yield NO_INPUT if content["inputs"] is None else content["inputs"][rank]


class _Report:
    """Collects one rank's reports in memory, and sends them to rank 0; the result itself stays here."""

    def __init__(self, channel: Channel | None):
        self.facts: dict = {"events": [], "memory": None, "error": None}
        self.blob, self.channel = b"", channel
        self._reader = ReportReader()
        self._ended = False

    def lost(self) -> None:
        """Rank 0 is gone. Nobody sees any more whether this one stands still, so it ends, unless it has ended anyway."""
        if not self._ended:
            os._exit(1)

    def __call__(self, kind: str, blob: bytes = b"", **fields) -> None:
        self._ended |= kind in ("returned", "raised")
        if self.channel is not None:
            self.channel.send(kind, **fields)
        if kind == "memory":
            self.facts["memory"] = fields
        elif kind == "returned":
            self.blob = blob
        elif kind == "raised":
            self.facts["error"] = fields
        else:
            self.facts["events"] += self._reader.unpacked(kind, fields)


def main() -> None:
    parser = argparse.ArgumentParser(prog="torchrun -m utils.ranks.torchrun", description=__doc__.splitlines()[0])
    parser.add_argument("job", type=Path, help="the file that write_job wrote")
    parser.add_argument("results", type=Path, help="a folder that all machines share, or one a machine to gather later")
    arguments = parser.parse_args()
    run_here(arguments.job, arguments.results)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # everything is written; a thread of the transport can abort a process that ends the long way


if __name__ == "__main__":
    main()
