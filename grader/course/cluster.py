"""Markings side by side on a Dask cluster: of this machine, or of any scheduler by its address."""

import contextlib
import functools
import hashlib
import logging
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, LocalCluster, as_completed

from grader.course.mark import mark_submission
from grader.sandbox import bubblewrap as sandbox

ROOT = Path(__file__).resolve().parents[2]
MEMORY_A_WORKER = 4 << 30  # what a marking and its worker need at most as a rule; decides how many there are
PATIENCE_S = 60
IN_FLIGHT_A_THREAD = 2  # sent ahead, so that nobody waits for the next one


class ClusterError(RuntimeError):
    """The cluster cannot mark."""


@dataclass(frozen=True)
class Task:
    """What a worker gets: contents only, no folder. name: what the sender knows it by."""

    name: Any
    submitted: bytes
    released: bytes


@dataclass(frozen=True)
class Done:
    """What came back: a marked notebook and its record, or what went wrong."""

    name: Any
    notebook: bytes = b""
    record: dict[str, Any] | None = None
    problem: str = ""


def default_workers() -> int:
    """As many as there are cores, and memory for."""
    return max(1, min(len(os.sched_getaffinity(0)), psutil.virtual_memory().total // MEMORY_A_WORKER))


@functools.cache
def code_digest() -> str:
    """A short name for the course's code: marks of two versions must not be mixed."""
    whole = hashlib.sha256()
    for path in sorted([*ROOT.glob("utils/**/*.py"), *ROOT.glob("grader/**/*.py"), *ROOT.glob("grader/**/*.html")]):
        whole.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def mark_here(submitted: bytes, released: bytes, code: str, unsafe: bool) -> tuple[bytes, dict[str, Any]]:
    """The task itself: a pure function, run by a worker."""
    if code_digest() != code:
        raise ClusterError(f"the worker's course ({ROOT}) is not of the same version as the one that sends: install "
                           "the same one on every worker")
    return mark_submission(submitted, released, unsafe=unsafe)


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
    here = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, security=True, host="127.0.0.1",
                        protocol="tls://", silence_logs=logging.CRITICAL, memory_limit=MEMORY_A_WORKER)
    with here, Client(here, timeout=PATIENCE_S) as client:
        yield client


def mark_all(client: Client, tasks: Iterator[Task], unsafe: bool) -> Iterator[Done]:
    """Mark everything; results as they come. A submission that cannot be marked does not hold up the others.

    Raises: ClusterError or NoSandbox, where that would meet every other one too.
    """
    code, names = code_digest(), {}
    running = as_completed()

    def send() -> bool:
        task = next(tasks, None)
        if task is not None:
            future = client.submit(mark_here, task.submitted, task.released, code, unsafe, pure=False)
            names[future.key] = task.name
            running.add(future)
        return task is not None

    while len(names) < IN_FLIGHT_A_THREAD * _threads(client) and send():
        pass
    for future in running:
        yield _done(names.pop(future.key), future)
        while len(names) < IN_FLIGHT_A_THREAD * _threads(client) and send():
            pass


def worker_peak_bytes(client: Client) -> int:
    """The most memory that any worker's own process has used so far."""
    return max(client.run(_own_peak_bytes).values(), default=0)


def _own_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _threads(client: Client) -> int:
    return max(1, sum(client.nthreads().values()))


def _done(name: Any, future) -> Done:
    error = future.exception()
    if isinstance(error, (ClusterError, sandbox.NoSandbox)):
        raise error
    if error is not None:
        return Done(name, problem=f"{type(error).__name__}: {error}")
    notebook, record = future.result()
    return Done(name, notebook, record)
