"""Markings side by side on a Dask cluster, by its scheduler's address. Dask is installed for this alone."""

import contextlib
import logging
import resource
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from grader.course.again import ANEW, Again
from grader.course.journal import ROOT, code_digest
from grader.course.limited import mark_within_limits
from grader.course.pool import Task
from grader.sandbox.bubblewrap import NoSandbox

if TYPE_CHECKING:
    from distributed import Client

    from grader.course.mark import Marked  # what a worker marks in needs torch, not the worker

PATIENCE_S = 60
IN_FLIGHT_A_THREAD = 2  # sent ahead, so that nobody waits for the next one


class ClusterError(RuntimeError):
    """The cluster cannot mark."""


def mark_here(submitted: bytes, released: bytes, code: str, unsafe: bool, others: Sequence[tuple[str, bytes]] = (),
              found: Sequence[str] = (), again: Again = ANEW, called: str = "") -> "Marked":
    """The task itself: a pure function, run by a worker."""
    if code_digest() != code:
        raise ClusterError(f"the worker's course ({ROOT}) is not of the same version as the one that sends: install "
                           "the same one on every worker")
    return mark_within_limits(submitted, released, unsafe, others=others, found=found, again=again, called=called)


@contextlib.contextmanager
def connect(address: str) -> "Iterator[Cluster]":
    """The cluster whose scheduler has this address.  Raises: ClusterError."""
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("marking on a cluster needs Dask, which is not installed here: "
                           "run `make cluster`, or `pip install -e '.[cluster]'`") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
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
        yield Cluster(client)


class Cluster:
    """As grader.course.pool.Pool, on workers elsewhere."""

    def __init__(self, client: "Client"):
        self._client = client

    def mark_all(self, tasks: Iterator[Task], unsafe: bool) -> "Iterator[tuple[Any, Marked | str]]":
        """As Pool.mark_all.  Raises: ClusterError too, where a worker's course is another one."""
        from distributed import as_completed

        code, names, running = code_digest(), {}, as_completed()

        def send() -> None:
            while len(names) < IN_FLIGHT_A_THREAD * max(1, sum(self._client.nthreads().values())):
                task = next(tasks, None)
                if task is None:
                    return
                with warnings.catch_warnings(action="ignore", category=UserWarning):  # Dask's advice on large files
                    future = self._client.submit(mark_here, task.submitted, task.released, code, unsafe, task.others,
                                                 task.found, task.again, task.called, pure=False)
                names[future.key] = task.name
                running.add(future)

        send()
        for future in running:
            error = future.exception()
            if isinstance(error, (ClusterError, NoSandbox)):
                raise error
            yield names.pop(future.key), future.result() if error is None else f"{type(error).__name__}: {error}"
            send()

    def worker_peak_bytes(self) -> int:
        """The most memory that any worker's own process has used so far."""
        peaks = self._client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
        return max(peaks.values(), default=0)
