"""A run played moment by moment: what each rank does, what is on its way."""

import time
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from utils import run_ranks, span, widgets
from utils.figures.moment import MOST_MOMENTS, Moments
from utils.trace.trace import Trace


def call(rank, op, start, end, wait=None, waiting=0.0, peer=None, is_async=False, size=1024):
    blocked = 0.0 if wait is None else end - wait
    return SimpleNamespace(rank=rank, op=op, peer=peer, is_async=is_async, start_s=start, end_s=end, wait_start_s=wait,
                           blocked_s=blocked, waiting_s=waiting, bytes=size, bytes_given=size)


@pytest.fixture
def moments():
    """Rank 0 sends from 1 to 4 s while it computes until 3; rank 1 waits in a receive from 2 s on, for which 3 s is met."""
    calls = (call(0, "send", 1.0, 4.0, wait=3.0, peer=1, is_async=True),
             call(1, "recv", 2.0, 4.0, wait=2.0, waiting=1.0, peer=0))
    spans = (SimpleNamespace(rank=0, name="layer 0", start_s=1.5, end_s=3.0, facts={}),)
    return Moments(Trace(2, calls, spans, duration_s=5.0))


@pytest.mark.parametrize("time_s, zero, one, messages", [
    (0.5, "computing", "computing", []),
    (1.2, "computing", "computing", [(0, 1, 1024)]),
    (2.5, "layer 0", "recv ← 0", [(0, 1, 1024)]),
    (3.5, "send → 1", "recv ← 0", [(0, 1, 1024)]),
    (4.5, "no more calls", "no more calls", []),
])
def test_what_ranks_do_at_a_moment(moments, time_s, zero, one, messages):
    assert [moments.stand(rank, time_s).texts[0] for rank in (0, 1)] == [zero, one]
    assert moments.messages(time_s) == messages


def test_waiting_and_communicating_are_told_apart_and_flights_shown(moments):
    assert moments.stand(1, 2.5).kind == "waiting" and moments.stand(1, 3.5).kind == "communicating"
    assert moments.stand(0, 2.5).flights == (("send → 1", "→1"),)
    assert {0.0, 1.0, 2.0, 3.0, 4.0} <= set(moments.times_s)


def test_all_moments_are_equally_high_and_said_in_words(moments):
    pictures = [moments.picture(number) for number in range(len(moments.times_s))]
    assert len({picture.figure.get_size_inches()[1] for picture in pictures}) == 1
    middle = pictures[moments.times_s.index(3.0)].words
    assert "rank 1: communicating (recv ← 0)" in middle and "1 KiB from 0 to 1" in middle
    assert moments.picture(2).svg == moments.picture(2).svg != moments.picture(0).svg


def test_a_deadlock_is_stuck_to_the_end():
    stuck = [call(rank, "recv", start, None, peer=1 - rank) for rank, start in ((0, 1.0), (1, 1.2))]
    for one in stuck:
        one.wait_start_s = one.start_s
    moments = Moments(Trace(2, tuple(stuck), duration_s=1.2))
    assert [moments.stand(rank, moments.times_s[-1]).kind for rank in (0, 1)] == ["stuck", "stuck"]
    assert "rank 1: stuck (recv ← 0)" in moments.picture(len(moments.times_s) - 1).words


def test_a_long_run_is_thinned():
    calls = tuple(call(0, "barrier", k / 1000, k / 1000 + 5e-4, wait=k / 1000) for k in range(5000))
    assert MOST_MOMENTS / 2 <= len(Moments(Trace(1, calls, duration_s=5.0)).times_s) <= MOST_MOMENTS


@pytest.mark.parametrize("trace", [Trace(2), Trace(17, (call(0, "barrier", 0.0, 1.0, wait=0.0),), duration_s=1.0)])
def test_what_cannot_be_played_is_refused(trace):
    with pytest.raises(ValueError, match="1 to 16 ranks"):
        widgets.trace_player(trace)


def test_a_real_run_is_played_and_stepped_through():
    def work(rank):
        x = torch.ones(1 << 16)
        dist.barrier()
        if rank == 0:
            with span("slow"):
                time.sleep(0.3)
            dist.send(x, 1)
        else:
            dist.recv(x, 0)

    player = widgets.trace_player(run_ranks(work, 2).trace)
    play, step = player.children[0].children
    assert play.max == step.max > 2
    seen = []
    for number in range(step.max + 1):
        step.value = number
        seen.append(player.view.value.partition('alt="')[2].partition('"')[0])
    assert any("rank 0: computing (slow); rank 1: waiting (recv ← 0)" in words for words in seen)
    assert seen[-1] != seen[0]
