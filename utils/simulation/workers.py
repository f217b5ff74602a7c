"""A DataLoader's workers, played by the process that records a rank: others would not know what its tensors are."""

import inspect
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import DataLoader, IterDataPipe, MapDataPipe, _DatasetKind
from torch.utils.data._utils import worker as torch_worker
from torch.utils.data.dataloader import _BaseDataLoaderIter

from utils.simulation.fresh import random_states
from utils.simulation.refusals import NEEDS_WORKERS, NeedsNumbers
from utils.simulation.shapes import shapes_only

WORKERS = "_simulated_workers"  # of a loader: (how many, what each calls first)


def with_workers_here(begin: Callable) -> Callable:
    """DataLoader.__init__, of a loader without processes of its own."""

    def __init__(loader: DataLoader, *args, **kwargs) -> None:
        settings = inspect.signature(begin).bind(loader, *args, **kwargs).arguments
        if n_workers := settings.get("num_workers"):
            if isinstance(settings["dataset"], (IterDataPipe, MapDataPipe)):
                raise NeedsNumbers(NEEDS_WORKERS)
            loader.__dict__[WORKERS] = n_workers, settings.get("worker_init_fn")
        settings |= {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, "timeout": 0}
        begin(**settings)

    return __init__


def by_workers_here(get_iterator: Callable) -> Callable:
    """DataLoader._get_iterator, of the same."""

    def of_loader(loader: DataLoader) -> Iterator:
        return _Batches(loader, *vars(loader)[WORKERS]) if WORKERS in vars(loader) else get_iterator(loader)

    return of_loader


class _Batches(_BaseDataLoaderIter):
    """What the workers of a loader send, in the order in which they take turns."""

    def __init__(self, loader: DataLoader, n_workers: int, init_fn: Callable[[int], Any] | None):
        super().__init__(loader)
        about = (self._dataset_kind, self._dataset, self._auto_collation, _not_by_workers(self._collate_fn), self._drop_last)
        self._turns = deque(_Worker(number, n_workers, self._base_seed, init_fn, about) for number in range(n_workers))

    def _next_data(self) -> Any:
        while self._turns:
            index = self._next_index()
            try:
                data = self._turns[0].fetch(index)
            except StopIteration:  # this one's share of an IterableDataset is at its end
                self._turns.popleft()
                continue
            self._turns.rotate(-1)
            return data
        raise StopIteration


class _Worker:
    """One of them: it has a number, and random numbers of its own."""

    def __init__(self, number: int, n_workers: int, base_seed: int, init_fn: Callable[[int], Any] | None, about: tuple):
        seed = base_seed + number
        self._info = torch_worker.WorkerInfo(id=number, num_workers=n_workers, seed=seed, dataset=about[1])
        self._states: tuple[list, bool] | None = None
        with self._at_work():
            random.seed(seed)
            torch.manual_seed(seed)
            np.random.seed(torch_worker._generate_state(base_seed, number))
            if init_fn is not None:
                init_fn(number)
            self._fetcher = _DatasetKind.create_fetcher(*about)

    def fetch(self, index: Any) -> Any:
        """Raises: StopIteration at the end of an IterableDataset."""
        with self._at_work():
            return self._fetcher.fetch(index)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        before = _drawn_from()
        if self._states is not None:
            _draw_from(*self._states)
        torch_worker._worker_info = self._info
        try:
            yield
        finally:
            torch_worker._worker_info = None
            self._states = _drawn_from()
            _draw_from(*before)


def _not_by_workers(collate: Callable) -> Callable:
    """torch's own puts what a worker sends into shared memory."""
    def collated(samples: list) -> Any:
        info, torch_worker._worker_info = torch_worker._worker_info, None
        try:
            return collate(samples)
        finally:
            torch_worker._worker_info = info

    return collated


def _drawn_from() -> tuple[list, bool]:
    with _disable_current_modes():
        states = random_states()
    return states, shapes_only().has_drawn_unknown


def _draw_from(states: list, has_drawn_unknown: bool) -> None:
    with _disable_current_modes():
        for put, value in states:
            put(value)
    shapes_only().has_drawn_unknown = has_drawn_unknown
