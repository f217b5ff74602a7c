"""What ranks do while they take long: in words, as it changes, and never where nobody looks on."""

import time

import pytest
import torch
import torch.distributed as dist

from utils import Deadlock, run_ranks
from utils.deadlocks.waits import WaitState
from utils.ranks import live, run


class Shown(live.StatusLines):
    """Keeps what it would have shown."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def _show(self, text):
        self._handle = self
        self.texts.append(text)


@pytest.fixture
def shown(monkeypatch):
    looking = Shown()
    monkeypatch.setattr(run, "status_lines", lambda: looking)
    return looking


def test_a_long_run_says_who_computes_and_who_waits_for_whom(shown):
    def slow(rank):
        x = torch.ones(4)
        if rank == 0:
            time.sleep(2.2)
            dist.send(x, 1)
        else:
            dist.recv(x, 0)

    run_ranks(slow, 2)
    first, *_, last = shown.texts
    computing, waiting = first.splitlines()
    assert computing.startswith("rank 0: computing, ")
    assert waiting.startswith("rank 1: waits for rank 0 in recv(src=0) of float32[4], ")
    assert last.startswith("2 ranks, ") and len(shown.texts) >= 3


def test_a_short_run_and_one_without_a_trace_show_nothing(shown):
    run_ranks(lambda: None, 2)
    run_ranks(lambda: time.sleep(1.5), 2, trace=False)
    assert shown.texts == []


def test_a_deadlock_is_told_as_ever(shown):
    with pytest.raises(Deadlock):
        run_ranks(lambda rank: dist.recv(torch.ones(1), 1 - rank), 2)


def test_many_ranks_share_lines_and_seconds_count_from_a_change():
    state, lines = WaitState(10), live.StatusLines()
    assert lines.lines(state, 0.0) == ["ranks 0–9: computing, 0 s"]
    state.ingest(3, "returned", {})
    assert lines.lines(state, 5.0) == ["ranks 0, 1, 2, 4, 5, 6, 7, 8 and 9: computing, 5 s", "rank 3: done"]
    few = live.StatusLines()
    few.lines(WaitState(2), 1.0)
    assert few.lines(WaitState(2), 9.0) == ["rank 0: computing, 8 s", "rank 1: computing, 8 s"]


def test_only_where_somebody_looks_on(monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setattr(live, "running_shell", lambda: "a shell")
    assert live.status_lines() is None
    monkeypatch.setenv("JPY_SESSION_NAME", "a.ipynb")
    assert live.status_lines() is not None
    monkeypatch.setattr(live, "running_shell", lambda: None)
    assert live.status_lines() is None
