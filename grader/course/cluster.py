"""Markings side by side on a Dask cluster: of this machine, or of any scheduler by its address."""

import contextlib
import functools
import logging
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from distributed import Client, LocalCluster, as_completed

from grader.course.journal import digest_of
from grader.course.limited import mark_within_limits
from grader.sandbox import bubblewrap as sandbox
from utils.ranks.fair_clock import processors

if TYPE_CHECKING:
    from grader.course.mark import Marked  # what a worker marks in needs torch, not the worker

ROOT = Path(__file__).resolve().parents[2]
MEMORY_A_WORKER = 4 << 30  # what a marking and its worker need at most as a rule; decides how many there are
PATIENCE_S = 60
IN_FLIGHT_A_THREAD = 2  # sent ahead, so that nobody waits for the next one


class ClusterError(RuntimeError):
    """The cluster cannot mark."""


def default_workers() -> int:
    """As many as there are cores, and memory for."""
    return max(1, min(processors(), psutil.virtual_memory().total // MEMORY_A_WORKER))


@functools.cache
def code_digest() -> str:
    """A short name for the course's code: marks of two versions must not be mixed. The instructor's settings are none."""
    paths = sorted({*ROOT.glob("utils/**/*.py"), *ROOT.glob("grader/**/*.py"), *ROOT.glob("grader/**/*.html"),
                    *ROOT.glob("grader/**/*.toml")}
                   - {ROOT / "grader" / "nbgrader_config.py"})
    return digest_of(*(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() for path in paths))[:16]


def mark_here(submitted: bytes, released: bytes, code: str, unsafe: bool, others: Sequence[tuple[str, bytes]] = (),
              found: Sequence[str] = ()) -> "Marked":
    """The task itself: a pure function, run by a worker."""
    if code_digest() != code:
        raise ClusterError(f"the worker's course ({ROOT}) is not of the same version as the one that sends: install "
                           "the same one on every worker")
    return mark_within_limits(submitted, released, unsafe, others=others, found=found)


@dataclass(frozen=True)
class Task:
    """What is sent of a submission: contents only, no folder. name: what the sender knows it by; else as mark_submission."""

    name: Any
    submitted: bytes
    released: bytes
    others: Sequence[tuple[str, bytes]] = ()
    found: Sequence[str] = ()


@contextlib.contextmanager
def connect(address: str, workers: int) -> Iterator[Client]:
    """A client of the scheduler at `address`; "" makes a cluster of `workers` processes here, for this user only.

    Raises: ClusterError.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if address:
        try:
            client = Client(address, timeout=PATIENCE_S)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"no Dask scheduler answers at {address} ({error}): start one with "
                               "`dask scheduler`") from None
        with client:
            try:
                client.wait_for_workers(1, timeout=PATIENCE_S)
            except TimeoutError:
                raise ClusterError(f"the scheduler at {address} has no workers: start some with "
                                   f"`dask worker {address}`") from None
            yield client
        return
    any_port = {"dashboard_address": "127.0.0.1:0"}  # else it asks for 8787, and warns if that is taken
    here = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, security=True, host="127.0.0.1",
                        protocol="tls://", silence_logs=logging.CRITICAL, memory_limit=MEMORY_A_WORKER,
                        scheduler_kwargs=any_port)
    with here, Client(here, timeout=PATIENCE_S) as client:
        yield client


def mark_all(client: Client, tasks: Iterator[Task], unsafe: bool) -> "Iterator[tuple[Any, Marked | str]]":
    """Mark everything; results as they come. A submission that cannot be marked does not hold up the others.

    Returns: (the task's name, the marked notebook and its record, or in words what went wrong).
    Raises: ClusterError or NoSandbox, where that would meet every other one too.
    """
    code, names = code_digest(), {}
    running = as_completed()

    def send() -> None:
        while len(names) < IN_FLIGHT_A_THREAD * max(1, sum(client.nthreads().values())):
            task = next(tasks, None)
            if task is None:
                return
            future = client.submit(mark_here, task.submitted, task.released, code, unsafe, task.others, task.found,
                                   pure=False)
            names[future.key] = task.name
            running.add(future)

    send()
    for future in running:
        error = future.exception()
        if isinstance(error, (ClusterError, sandbox.NoSandbox)):
            raise error
        yield names.pop(future.key), future.result() if error is None else f"{type(error).__name__}: {error}"
        send()


def worker_peak_bytes(client: Client) -> int:
    """The most memory that any worker's own process has used so far."""
    return max(client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10).values(), default=0)
