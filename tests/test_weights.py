"""What a rank's process weighed against what it may: judged on made evidence, and read from a process that takes memory."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from grader.calling.weighing import BEGINNING, END
from grader.evidence.case import WEIGHED, Case
from grader.evidence.evidence import RETURNED, Evidence, Weight
from grader.exercises.technique.weights import SLACK_BYTES, weighs_at_most
from grader.judging.exercise import Look
from grader.sandbox.weighing import memory_of, pipes_of
from utils.costs.flops import FlopCounter
from utils.trace.trace import Trace

ALLOWED = 10 << 20
TOO_LARGE, HIDDEN = weighs_at_most({END: lambda look, rank: ALLOWED})


def verdicts(*weights: tuple[str, int, int], weighed: bool = True) -> tuple[bool, bool]:
    """Whether each of the two demands is met by one rank's weights: (moment, bytes, bytes that its meter told)."""
    case = Case("large", ({WEIGHED: weighed},))
    evidence = Evidence([None], RETURNED, Trace(1), weights=[Weight(0, *weight) for weight in weights])
    look = Look(case, [None], evidence)
    return TOO_LARGE.judge(look)[0], HIDDEN.judge(look)[0]


START = (BEGINNING, 500 << 20, 1 << 20)
MOST = ALLOWED + SLACK_BYTES


@pytest.mark.parametrize("weights, met", [
    ([START, (END, START[1] + MOST, START[2])], (True, True)),
    ([START, (END, START[1] + MOST + 1, START[2] + MOST)], (False, True)),  # tensors, in the open
    ([START, (END, START[1] + MOST + 1, START[2])], (False, False)),
    ([START, (END, START[1] + MOST + 1, 0)], (False, False)),  # a meter that was set back
    ([START], (True, False)),
    ([], (True, False)),
    ([(END, START[1], START[2])], (True, False)),
    ([START, START, (END, START[1], START[2])], (True, False)),  # weighed again when more was there
])
def test_what_was_not_weighed_or_is_hidden_fails_the_gate(weights, met):
    assert verdicts(*weights) == met


def test_where_nobody_weighs_nothing_is_asked():
    assert verdicts(weighed=False) == (True, True)
    nobody = replace(Evidence([None], RETURNED, Trace(1)), weights=None)
    assert HIDDEN.judge(Look(Case("large", ({WEIGHED: True},)), [None], nobody))[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("take, weigh, least, most", [
    ("kept = bytearray(b'x') * (20 << 20)", memory_of, 20 << 20, 22 << 20),
    ("os.write(into, bytes(50_000))", lambda process: sum(dict(pipes_of(process)).values()), 50_000, 50_000),
], ids=["memory that no meter sees", "what lies in a pipe"])
def test_what_a_process_takes_is_seen_from_outside(take, weigh, least, most):
    program = f"import os; out, into = os.pipe(); print(flush=True); input(); {take}; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rank:
        rank.stdout.readline()
        before = weigh(rank.pid)
        print(file=rank.stdin, flush=True)
        rank.stdout.readline()
        after = weigh(rank.pid)
        rank.kill()
    assert least <= after - before <= most


def test_a_product_by_hand_shows_in_the_largest_result():
    a, b = torch.ones(8, 16), torch.ones(16, 12)
    with FlopCounter() as counter:
        a @ b
    assert (counter.total, counter.largest) == (2 * 8 * 16 * 12, 8 * 12)
    with FlopCounter() as counter:
        (a.unsqueeze(2) * b).sum(1)
    assert (counter.total, counter.largest) == (0, 8 * 16 * 12)
