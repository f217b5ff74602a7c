"""Steps of a GPT that one H100 took, as utils/costs/data has them, against the simulator and the planner."""

from dataclasses import replace
from functools import partial

import pytest

from tests.bench_gpu import alone, planned_on, simulated_s, steps_of
from utils import simulate_ranks
from utils.planner.published import one_gpu_runs
from utils.simulation.clusters import H100

MEASURED = {run.shape.name.removeprefix("GPT "): run for run in one_gpu_runs()}
LAUNCH_S = 28e-6  # of an operation on next to nothing, measured beside them: Python and the launch of its kernel


@pytest.mark.parametrize("model", ["302M", "1.2B", "3.2B"])
def test_a_planned_step_is_at_most_a_quarter_too_short(model):
    """A plan knows products and what reads and writes memory, both at their best: no launches, no slow kernels."""
    run = MEASURED[model]
    assert 0.75 < planned_on(H100, run.shape, run.batch).time / run.step_s < 1


@pytest.mark.parametrize("model", MEASURED)
def test_planned_memory_is_what_was_allocated(model):
    """Up to a tenth more: with one micro-batch, gradients come as activations go, and a plan adds both."""
    run = MEASURED[model]
    assert 0.99 < planned_on(H100, run.shape, run.batch).memory / run.peak_bytes < 1.11


@pytest.mark.long
@pytest.mark.parametrize(("model", "shortest"), [("85M", 0.35), ("3.2B", 0.85)])
def test_a_simulated_step_lacks_the_launches(model, shortest):
    """They are most of a small model's step; with as many microseconds an operation as were measured it is what it took."""
    run = MEASURED[model]
    without, launched = (simulated_s(partial(steps_of, run.shape, run.batch), device) / run.step_s
                         for device in (H100, replace(H100, overhead_s=LAUNCH_S)))
    assert shortest < without < 1 < 1.1 * launched and launched < 1.1


@pytest.mark.long
@pytest.mark.parametrize(("model", "rounding"), [("85M", 0.05), ("3.2B", 0.01)])
def test_a_simulated_peak_is_what_torchs_allocator_counted(model, rounding):
    """The allocator rounds up, and a library's products have workspaces: tens of megabytes."""
    run = MEASURED[model]
    simulated = simulate_ranks(partial(steps_of, run.shape, run.batch, 2), 1, alone(H100))
    assert 1 - rounding < simulated.memory[0].peak_bytes / run.peak_bytes <= 1
