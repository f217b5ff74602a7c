"""What was not seen was not done: every demand of every exercise, where nothing was seen; and what must have crossed."""

import subprocess
import sys

import pytest

from grader.evidence.case import Case
from grader.evidence.evidence import RETURNED, Evidence
from grader.evidence.traffic import Flow, Observed
from grader.exercises import EXERCISES
from grader.judging.demands import NotSeen
from grader.judging.exercise import Draw, Look, Trial
from grader.judging.judge import judge
from grader.judging.needs import NOT_CROSSED, least, needs
from tests.course import ROOT
from utils.trace.trace import Trace

NO_BYTES = {"speak_in_order": "a token may be empty; that ranks wait for it is a demand of its own",
            "DropInShardedOptimizer": "the class that it extends, which the check gives it, sends all there is to send"}


def unseen(trial, **seen) -> Look:
    """The right results, and nothing that shows how they came about."""
    n = trial.case.world_size
    return Look(trial.case, trial.right, Evidence(list(trial.right), RETURNED, Trace(n), memory=[None] * n, **seen))


def is_met(demand, look: Look) -> bool:
    try:
        return demand.judge(look)[0]
    except NotSeen:
        return False


@pytest.mark.parametrize("name", [name for name, exercise in EXERCISES.items() if exercise.technique.demands])
def test_where_nothing_was_seen_only_what_forbids_is_met(name):
    exercise = EXERCISES[name]
    looks = [unseen(trial) for trial in exercise.trials(0, grading=False)]
    weighed = [case for case in exercise.make_cases(Draw(0), True) if case.weighed]
    assert exercise.measured or not weighed, "what is too much must be known to a meter"
    looks += [unseen(Trial(case, [None] * case.world_size), weights=[]) for case in weighed]
    assert [demand.id for demand in exercise.technique.demands
            if not demand.forbids and all(is_met(demand, look) for look in looks)] == []


def test_ranks_that_may_call_need_something():
    without = {name for name, exercise in EXERCISES.items() if exercise.technique.demands
               and not any(demand.id == NOT_CROSSED or demand.label == "no communication"
                           for demand in exercise.technique.demands)}
    assert without == NO_BYTES.keys()


@pytest.mark.parametrize("name", ["ring_all_reduce", "DataParallel", "CopyToGroup", "GatherSequence", "gpipe_step"])
def test_right_results_earn_nothing_where_a_complete_witness_saw_nothing(name):
    """However many calls are reported."""
    exercise = EXERCISES[name]
    trials = exercise.trials(0, grading=False)
    verdict = judge(exercise, trials, [unseen(t, messages=Observed(True, ())).evidence for t in trials])
    assert verdict.points == 0
    unmet = {demand.id for case in verdict.cases for demand in case.demands if not demand.met}
    assert NOT_CROSSED in unmet


@pytest.mark.parametrize("op, come, leave", [
    ("all_reduce", 1200, 1200), ("reduce_scatter", 300, 900), ("all_gather", 900, 300), ("all_to_all", 900, 900),
    ("send", 0, 1200), ("recv", 1200, 0)])
def test_the_least_that_an_operation_takes(op, come, leave):
    case = Case("", ({},) * 4)
    assert least(Look(case, [None] * 4, None), 0, lambda look, rank: [(op, 1200)]) == (come, leave)


def test_what_crossed_is_counted_for_who_sent_and_who_received():
    case, demand = Case("", ({},) * 2), needs(lambda look, rank: [("recv" if rank else "send", 100)])

    def met(*flows: Flow) -> bool:
        return demand.judge(Look(case, [None] * 2, Evidence([], RETURNED, Trace(2), messages=Observed(True, flows))))[0]

    assert met(Flow(0, 1, "send", 1, 100)) and met(Flow(None, None, "send", 1, 100))  # whose it was cannot be told
    assert not met(Flow(0, 1, "send", 1, 90)) and not met(Flow(1, 0, "send", 1, 100))
    assert not met(Flow(0, 1, "not gloo", 1, 100)) and not met()


FORBIDDEN = {
    "torch.utils.checkpoint": """
from torch.utils.checkpoint import checkpoint as known_before
forbid(["torch.utils.checkpoint"])
x = torch.ones(2, requires_grad=True)
ways = [lambda: known_before(torch.sin, x, use_reentrant=False),
        lambda: torch.utils.checkpoint.CheckpointFunction.apply(torch.sin, True, x),
        lambda: importlib.reload(torch.utils.checkpoint),
        lambda: open(torch.utils.checkpoint.__file__).read()]
""",
    "torch.distributed.pipelining": """
forbid(["torch.distributed.pipelining"])
ways = [lambda: importlib.import_module("torch.distributed.pipelining"),
        lambda: importlib.import_module("torch.distributed.pipelining.schedules")]
""",
    "torch.distributed.fsdp": """
forbid(["torch.distributed.fsdp"])
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
ways = [lambda: fully_shard(torch.nn.Linear(2, 2)), lambda: FullyShardedDataParallel(torch.nn.Linear(2, 2))]
""",
    "utils.costs.strategies": """
import os
import cloudpickle
from utils.costs import strategies
cloudpickle.register_pickle_by_value(strategies)
carried = cloudpickle.dumps(strategies.formulas)
forbid(["utils.costs.strategies"])
ways = [lambda: cloudpickle.loads(carried),
        lambda: os.open(os.path.dirname(os.path.dirname(strategies.__file__)), os.O_RDONLY),
        lambda: open("costs/strategies.py", opener=lambda path, flags: os.open(path, flags, dir_fd=3)),
        lambda: open(os.path.relpath(strategies.__file__, "/usr")),  # as it is called in another folder
        lambda: os.symlink(strategies.__file__, "never made"), lambda: os.link(strategies.__file__, "never made")]
""",
}


@pytest.mark.long
@pytest.mark.parametrize("module", FORBIDDEN)
def test_what_is_to_be_written_raises_in_the_library(module):
    """And an optimizer, which imports much of torch for itself, goes on as before."""
    done = subprocess.run([sys.executable, "-c", f"""
import importlib
import torch
from grader.calling.forbidden import forbid
{FORBIDDEN[module]}
for way in ways:
    try:
        way()
    except Exception as error:
        assert "is what this exercise has you write" in str(error), error
    else:
        raise SystemExit("it could be used")
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(layer.parameters())
layer(torch.ones(2)).sum().backward()
optimizer.step()
"""], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
