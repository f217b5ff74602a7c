"""Markings side by side on this machine: each in a process of its own, for which a thread waits."""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from grader.course.again import ANEW, Again
from grader.course.limited import Marking
from grader.sandbox.bubblewrap import NoSandbox
from utils.ranks.fair_clock import processors

if TYPE_CHECKING:
    from grader.course.mark import Marked  # who sends a marking off need not import torch

MEMORY_A_MARKING = 4 << 30  # what one needs at most as a rule; decides how many there are at a time


@dataclass(frozen=True)
class Task:
    """What is sent of a submission: contents only, no folder. name: what the sender knows it by; else as mark_submission."""

    name: Any
    submitted: bytes
    released: bytes
    others: Sequence[tuple[str, bytes]] = ()
    found: Sequence[str] = ()
    again: Again = ANEW
    called: str = ""


def default_workers() -> int:
    """As many as there are cores, and memory for."""
    return max(1, min(processors(), psutil.virtual_memory().total // MEMORY_A_MARKING))


class Pool:
    """So many markings at a time. Who leaves the `with` block early ends those that still run."""

    def __init__(self, workers: int):
        self._workers = workers
        self._running: dict[Future, tuple[Any, Marking | None]] = {}  # with the task's name

    def __enter__(self) -> "Pool":
        self._threads = ThreadPoolExecutor(self._workers)
        return self

    def __exit__(self, *_) -> None:
        try:
            for _, marking in list(self._running.values()):
                if marking:
                    marking.end()
        finally:
            self._threads.shutdown()

    def mark_all(self, tasks: Iterator[Task], unsafe: bool) -> "Iterator[tuple[Any, Marked | str]]":
        """Mark everything; results as they come. A submission that cannot be marked does not hold up the others.

        Returns: (the task's name, the marked notebook and its record, or in words what went wrong).
        Raises: NoSandbox, which would meet every other one too.
        """
        self._send(tasks, unsafe)
        while self._running:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                name, _ = self._running.pop(future)
                if isinstance(error := future.exception(), NoSandbox):
                    raise error
                yield name, future.result() if error is None else f"{type(error).__name__}: {error}"
            self._send(tasks, unsafe)

    def _send(self, tasks: Iterator[Task], unsafe: bool) -> None:
        while len(self._running) < self._workers and (task := next(tasks, None)) is not None:
            try:
                marking = Marking(task.submitted, task.released, unsafe, task.others, task.found, task.again,
                                  called=task.called)
            except (RuntimeError, OSError) as error:  # no process can be started
                failed: Future = Future()
                failed.set_exception(error)
                self._running[failed] = task.name, None
            else:
                self._running[self._threads.submit(marking.result)] = task.name, marking
