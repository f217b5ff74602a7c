"""Whether ranks that should hold the same tensors do, and what is said if not."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from utils import RankFailed, run_ranks
from utils.costs.replicas import require_equal
from utils.models.tiny import TinyGPT, same_start

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool)


def odd_ones():
    """Tensors of every sort: none dense, empty, a single number, every dtype."""
    return [torch.arange(12.0).view(3, 4).t(), torch.empty(0), torch.tensor(2.5),
            *(torch.tensor([0, 1, 1]).to(dtype) for dtype in DTYPES)]


def failure(fn, world_size=3):
    """(ranks that raised a ValueError, the message of the lowest of them)

    Two ranks that see the same fault may raise in either order."""
    with pytest.raises(RankFailed) as caught:
        run_ranks(fn, world_size)
    own = sorted((f for f in caught.value.failures if f.kind == "ValueError"), key=lambda failure: failure.rank)
    return [f.rank for f in own], own[0].message


def test_equal_tensors_pass_for_a_few_bytes():
    def ask():
        require_equal(odd_ones())
        require_equal(same_start(TinyGPT).parameters())
        require_equal([])

    run = run_ranks(ask, 3)
    n_tensors = len(odd_ones()) + len(list(same_start(TinyGPT).parameters()))
    calls = run.trace.of(1)
    assert {c.op for c in calls} == {"broadcast"} and len(calls) == 6
    assert sum(c.bytes for c in calls) == 3 * 8 + 24 * n_tensors


def test_one_rank_asks_nobody():
    assert not run_ranks(lambda: require_equal(odd_ones()), 1).trace.calls


def test_not_a_number_is_equal_to_itself():
    run_ranks(lambda: require_equal([torch.tensor([torch.nan, torch.inf])]), 2)


def test_other_numbers():
    def ask(rank):
        tensors = odd_ones()
        tensors[0][1, 2] += (rank == 2) * 1e-6
        require_equal(tensors)

    ranks, message = failure(ask)
    assert ranks == [2]
    for words in ("tensor 0 of 9", "shape (4, 3)", "on rank 0, but other values", "on rank 2", "is it a shard",
                  "broadcast_model"):
        assert words in message


def test_numbers_in_another_order_differ():
    ranks, message = failure(lambda rank: require_equal([torch.ones(2), torch.tensor([1.0, 2.0]).roll(rank)]), 2)
    assert ranks == [1] and "tensor 1 of 2" in message


def test_a_model_of_each_ranks_own():
    ranks, message = failure(lambda rank: require_equal(same_start(nn.Linear, seed=rank, in_features=2, out_features=2)
                                                        .parameters()))
    assert ranks == [1, 2] and "tensor 0 of 2" in message


@pytest.mark.parametrize("change, words", [
    (lambda x: x[:2], "12 elements on rank 0, 6 (shape (2, 3), float32) on rank 1"),
    (lambda x: x.t(), "another shape or type: shape (3, 4), float32"),
    (lambda x: x.view(torch.int32), "another shape or type: shape (4, 3), int32"),
])
def test_other_shapes_and_types(change, words):
    def ask(rank):
        x = torch.arange(12.0).view(4, 3)
        require_equal([torch.ones(1), change(x) if rank else x])

    ranks, message = failure(ask, 2)
    assert ranks == [1] and "tensor 1 of 2" in message and words in message


@pytest.mark.parametrize("counts", [(3, 2), (2, 3), (0, 1), (1, 0)])
def test_other_counts(counts):
    ranks, message = failure(lambda rank: require_equal([torch.ones(2)] * counts[rank]), 2)
    assert ranks == [1]
    assert f"rank 0 holds {counts[0]} tensors, rank 1 {counts[1]}" in message


def test_only_the_group_must_agree():
    def ask(rank):
        group = dist.new_group([1, 3])
        if rank in (1, 3):
            require_equal([torch.tensor([rank % 2])], group)

    run_ranks(ask, 4)


def test_ranks_of_a_group_are_named_as_in_the_world():
    def ask(rank):
        group = dist.new_group([1, 3])
        if rank in (1, 3):
            require_equal([torch.tensor([rank])], group)

    ranks, message = failure(ask, 4)
    assert ranks == [3] and "as on rank 1" in message and "on rank 3" in message
