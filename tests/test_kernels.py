"""In a real kernel: cells' own lines, the magic, interrupts, and no process that outlives its kernel."""

import pytest

from tests.kernels import kernel, wait_until_gone

SETUP = "import torch, torch.distributed as dist, time, signal, os\nfrom utils import run_ranks\n%load_ext utils"
SLEEPS = """
def sleeps(rank):
    print("asleep", os.getpid(), flush=True)
    {body}
run_ranks(sleeps, 3)
"""


@pytest.fixture(scope="module")
def shared():
    with kernel() as one:
        one.run(SETUP)
        yield one


def test_functions_of_other_cells_travel_and_errors_show_the_cell(shared):
    shared.run("def helper(x):\n    return 1 / x")
    text = shared.run("def divides(rank):\n    return helper(rank)\n\nrun_ranks(divides, 2)")
    assert "ZeroDivisionError" in text and "Cell In[" in text
    assert "line 2: return 1 / x" in text and "line 2: return helper(rank)" in text
    assert "launcher.py" not in text and "ranks.py" not in text


def test_a_deadlock_shows_the_cell_line(shared):
    text = shared.run("def stuck(rank):\n    if rank:\n        dist.barrier()\nrun_ranks(stuck, 2)")
    assert "rank 1 waits for rank 0 in barrier" in text and "line 3: dist.barrier()" in text


def test_magic_runs_the_cell_on_every_rank(shared):
    shared.run("offset = 10\ndef add(x):\n    return x + offset")
    text = shared.run("%%ranks 3\nx = torch.tensor(float(rank))\ndist.all_reduce(x)\nprint('sum', x.item())\nadd(x.item())")
    assert text.count("sum 3.0") == 3 and "[rank 2] sum 3.0" in text
    assert "[13.0, 13.0, 13.0]" in shared.run("run.results")


def test_magic_errors_show_the_right_line(shared):
    text = shared.run("%%ranks 2\nx = 1\nif rank == 1:\n    raise ValueError('here')")
    assert "rank 1: ValueError: here" in text and "line 4: raise ValueError('here')" in text


@pytest.mark.parametrize("line", ["", "four", "0"])
def test_magic_says_what_it_expects(shared, line):
    assert "BadValue: " in shared.run(f"%%ranks {line}\nprint(rank)")


def test_interrupt_ends_every_rank_and_leaves_the_kernel_usable():
    with kernel() as one:
        one.run(SETUP)
        one.run("run_ranks(lambda: 0, 1)")
        before = {p.pid for p in one.family()}
        one.start(SLEEPS.format(body="time.sleep(100)"), until="asleep")
        ranks = [p for p in one.family() if p.pid not in before]
        assert len(ranks) == 3
        one.manager.interrupt_kernel()
        told = one.finish()
        assert "Stopped: the run was interrupted" in told and "time.sleep(100)" in told and "launcher.py" not in told
        assert wait_until_gone(ranks) == []
        assert "[0, 1]" in one.run("run_ranks(lambda rank: rank, 2).results")


def test_signal_handlers_are_left_as_found(shared):
    shared.run("before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]")
    shared.run("run_ranks(lambda: 0, 2)")
    assert "True" in shared.run(
        "before == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]")


@pytest.mark.long
@pytest.mark.parametrize("body", ["time.sleep(100)", "sum(range(10**12))", "dist.recv(torch.ones(1), src=(rank + 1) % 3)"
                                  " if rank else time.sleep(100)"], ids=["asleep", "busy in C", "waiting"])
def test_no_rank_outlives_a_killed_kernel(body):
    with kernel() as one:
        one.run(SETUP)
        one.start(SLEEPS.format(body=body), until="asleep")
        family = one.family()
        assert len(family) >= 3
        one.manager.signal_kernel(9)
        assert wait_until_gone(family) == []


def test_nothing_is_left_after_ordinary_runs(shared):
    shared.run("run_ranks(lambda: 0, 4)")
    names = [" ".join(p.cmdline()) for p in shared.family()]
    assert len(names) <= 3, names  # the rank server and multiprocessing's own tracker
