"""run.memory against what must be held, and against torch's own tracker."""

import pytest
import torch

from utils import run_ranks
from utils.trace.memory import held_by_category, held_bytes, most_held_bytes

KIB = 1024


def test_a_training_step_by_category():
    def step():
        model = torch.nn.Linear(64, 64, bias=False)  # 16 KiB
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.ones(16, 64)  # 4 KiB
        model(x).sum().backward()
        optimizer.step()
        return model, optimizer  # alive until the end

    memory = run_ranks(lambda: (step(), None)[1], 1).memory[0]
    assert memory.peak["parameters"] == memory.peak["gradients"] == 16 * KIB
    assert 32 * KIB <= memory.peak["optimizer state"] <= 32 * KIB + 64
    assert memory.peak_bytes >= 64 * KIB


def test_freed_tensors_leave_now_but_stay_in_the_peak():
    def frees():
        kept = torch.ones(256)
        big = torch.ones(1 << 16)
        del big
        return kept

    memory = run_ranks(frees, 1).memory[0]
    assert memory.now_bytes == 1 * KIB and memory.peak_bytes == 257 * KIB


def test_the_most_held_is_that_since_the_last_call():
    def climbs():
        kept, big = torch.ones(256), torch.ones(1 << 10)
        del big
        first = most_held_bytes()
        big = torch.ones(512)
        del big
        return first, most_held_bytes(), most_held_bytes(), len(kept)

    assert run_ranks(climbs, 1).results[0] == (5 * KIB, 3 * KIB, 1 * KIB, 256)


def test_a_storage_resized_in_place_is_followed():
    def resizes():
        x = torch.ones(1024)
        x.untyped_storage().resize_(0)
        y = torch.ones(512)
        return (y + 0).shape

    memory = run_ranks(resizes, 1).memory[0]
    assert memory.peak_bytes == 4 * KIB


def test_a_layer_that_is_freed_and_filled_again_is_followed():
    """As FSDP does, between two operations that touch it."""

    def sawtooth():
        whole, held = torch.ones(1024), []
        for nbytes in (0, 4 * KIB, 0):
            whole.untyped_storage().resize_(nbytes)
            held.append(held_bytes())
        return held

    run = run_ranks(sawtooth, 1)
    assert run.results[0] == [0, 4 * KIB, 0]
    assert run.memory[0].now_bytes == 0 and run.memory[0].peak_bytes == 4 * KIB


def test_held_bytes_is_for_ranks_whose_memory_is_measured():
    with pytest.raises(RuntimeError, match="memory=True"):
        held_bytes()


def test_parameters_put_in_place_for_a_forward_pass_are_parameters():
    def borrows():
        layer = torch.nn.Linear(64, 64, bias=False)
        own = layer.weight.data
        layer.weight.data = torch.ones(64, 64)
        layer(torch.ones(1, 64))
        return own.shape

    assert run_ranks(borrows, 1).memory[0].peak["parameters"] == 32 * KIB


def test_against_torchs_own_tracker():
    """torch.distributed._tools.MemTracker on the same step: the same peak, to the odd scalar."""

    def both():
        from torch.distributed._tools.mem_tracker import MemTracker

        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
        optimizer = torch.optim.AdamW(model.parameters())
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            model(torch.ones(32, 64)).sum().backward()
            optimizer.step()
        snapshot = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
        return sum(size for name, size in snapshot.items() if str(name).lower().endswith("total"))

    run = run_ranks(both, 1)
    assert abs(run.memory[0].peak_bytes / run.results[0] - 1) < 0.1


def test_of_distributed_tensors_this_rank_s_shard_counts():
    """FSDP2's parameters, gradients and optimizer state are DTensors, whose own size is the global one."""

    def step(rank):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = fully_shard(torch.nn.Linear(64, 64, bias=False), mesh=init_device_mesh("cpu", (2,)))
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(16, 64)).sum().backward()
        optimizer.step()
        return held_by_category()

    for held in run_ranks(step, 2).results:
        assert held["parameters"] == held["gradients"] == 8 * KIB
        assert 16 * KIB <= held["optimizer state"] <= 16 * KIB + 64


def test_lazy_modules_run_and_are_counted_once_they_are_made():
    def lazily():
        model = torch.nn.Sequential(torch.nn.LazyLinear(4))
        model(torch.ones(2, 3))
        return model

    memory = run_ranks(lazily, 1).memory[0]
    assert memory.now["parameters"] == 4 * (3 * 4 + 4)
