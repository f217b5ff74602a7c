"""Attention over a sequence in shards, against torch's on the whole sequence: the solutions, their parts, the balance."""

import pytest
import torch
import torch.nn.functional as F

from grader.exercises.references import functions_of
from utils import RankFailed, run_ranks
from utils.figures.curves import step_memory_figure, trade_figure
from utils.figures.long_attention import causal_work_figure, owners, sent_by_ranks_figure, squares_per_step
from utils.models.attention import attend, attend_backward, cut_zigzag, join_zigzag

SOLUTIONS = functions_of("solutions", "08_sequence_parallel")
merge_attention, RingAttention = SOLUTIONS["merge_attention"], SOLUTIONS["RingAttention"]
SwapShards, ulysses_attention = SOLUTIONS["SwapShards"], SOLUTIONS["ulysses_attention"]
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2.0**-5}


def qkv(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(4)]


def whole(q, k, v, weights):
    """o, dq, dk, dv of one process."""
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    (o * weights).sum().backward()
    return o.detach(), q.grad, k.grad, v.grad


def on_ranks(attention, shards, n):
    def work(rank):
        q, k, v = (of_ranks[rank].clone().requires_grad_() for of_ranks in shards[:3])
        o = attention(q, k, v, None)
        (o * shards[3][rank]).sum().backward()
        return o.detach(), q.grad, k.grad, v.grad

    return run_ranks(work, n).results


# ── parts ──

@pytest.mark.parametrize("causal", [False, True])
def test_a_part_and_its_gradients_are_torchs(causal):
    q, k, v, weights = qkv(2, 3, 5, 4)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    (expected * weights).sum().backward()
    with torch.no_grad():
        o, lse = attend(q, k, v, causal)
        gradients = attend_backward(weights, q, k, v, o, lse, causal)
    for found, wanted in zip((o, *gradients), (expected, q.grad, k.grad, v.grad), strict=True):
        torch.testing.assert_close(found, wanted)


def test_causal_needs_as_many_queries_as_keys():
    q, k, v, _ = qkv(1, 1, 4, 2)
    with pytest.raises(ValueError, match="4 queries and 3 keys"):
        attend(q, k[:, :, :3], v[:, :, :3], causal=True)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_parts_merge_in_any_order(order):
    q, k, v, _ = qkv(1, 2, 9, 4)
    parts = [attend(q, k[:, :, i::3], v[:, :, i::3]) for i in order]
    o, lse = merge_attention(*merge_attention(*parts[0], *parts[1]), *parts[2])
    torch.testing.assert_close(o, F.scaled_dot_product_attention(q, k, v))
    torch.testing.assert_close(lse, attend(q, k, v)[1])


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_zigzag_and_back(n):
    x = torch.arange(2.0 * 2 * 6 * n).view(1, 2, 6 * n, 2)
    shards = cut_zigzag(x, n)
    assert join_zigzag(shards).equal(x)
    positions = cut_zigzag(torch.arange(6 * n), n, dim=0)
    assert all(one.equal(one.sort().values) for one in positions)  # so a rank's own mask is a plain triangle


def test_zigzag_says_what_does_not_fit():
    with pytest.raises(ValueError, match=r"sequence of 10 cannot be cut into 2·4 equal chunks.*multiple of 8"):
        cut_zigzag(torch.zeros(1, 1, 10, 1), 4)


# ── whole ways ──

@pytest.mark.parametrize("n, shape, dtype", [(1, (2, 2, 6, 3), torch.float64), (2, (1, 3, 12, 5), torch.float64),
                                             (3, (2, 1, 18, 4), torch.float64), (4, (1, 2, 24, 3), torch.float32),
                                             (2, (1, 2, 16, 8), torch.bfloat16)])
def test_ring_attention_is_torchs_with_all_gradients(n, shape, dtype):
    tensors = qkv(*shape, dtype=dtype)
    found = on_ranks(RingAttention.apply, [cut_zigzag(x, n) for x in tensors], n)
    for part, wanted in enumerate(whole(*(x.double() for x in tensors))):
        joined = join_zigzag([one[part] for one in found])
        assert joined.dtype == dtype
        torch.testing.assert_close(joined.double(), wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("n, shape, dtype", [(1, (2, 3, 5, 3), torch.float64), (2, (1, 4, 6, 5), torch.float64),
                                             (3, (2, 3, 9, 4), torch.float64), (4, (1, 8, 12, 3), torch.float32),
                                             (2, (1, 2, 10, 8), torch.bfloat16)])
def test_ulysses_is_torchs_with_all_gradients(n, shape, dtype):
    tensors = qkv(*shape, dtype=dtype)
    found = on_ranks(ulysses_attention, [x.chunk(n, 2) for x in tensors], n)
    for part, wanted in enumerate(whole(*(x.double() for x in tensors))):
        joined = torch.cat([one[part] for one in found], 2)
        torch.testing.assert_close(joined.double(), wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


def test_large_scores_do_not_overflow():
    q, k, v, weights = qkv(1, 1, 16, 4)
    tensors = [60 * q, 60 * k, v, weights]
    found = on_ranks(RingAttention.apply, [cut_zigzag(x, 4) for x in tensors], 4)
    for part, wanted in enumerate(whole(*tensors)):
        torch.testing.assert_close(join_zigzag([one[part] for one in found]), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("attention, shape, says", [
    (RingAttention.apply, (1, 2, 5, 4), "5 rows, an odd number"), (ulysses_attention, (1, 3, 4, 4), "3 heads .* 2 ranks")])
def test_sizes_that_do_not_fit_are_named(attention, shape, says):
    shards = [[x, x] for x in qkv(*shape)]
    with pytest.raises(RankFailed, match=says) as caught:
        on_ranks(attention, shards, 2)
    assert caught.value.failures[0].kind == "ValueError"


def test_swapping_there_and_back_is_nothing():
    x = torch.randn(2, 4, 3, 5)
    run = run_ranks(lambda rank: SwapShards.apply(SwapShards.apply(x + rank, 1, 2, None), 2, 1, None), 4)
    assert all(one.equal(x + rank) for rank, one in enumerate(run.results))


# ── balance, and its figures ──

@pytest.mark.parametrize("n", range(1, 9))
def test_two_chunks_a_rank_balance_every_step(n):
    steps = squares_per_step(n, zigzag=True)
    assert all(blocks == 2 for row in steps for blocks in row)
    in_order = squares_per_step(n, zigzag=False)
    assert sum(map(sum, in_order)) == sum(map(sum, steps)) == (2 * n) ** 2 / 2
    assert sum(in_order[-1]) == 4 * n - 2 and sum(in_order[0]) == 2
    assert sorted(owners(n, True)) == sorted(owners(n, False))


def test_figures_say_what_they_show():
    assert "rank 3 14" in causal_work_figure(4).words and "rank 3 8" in causal_work_figure(4).words
    assert "full: 1 KiB, 20 ms" in trade_figure({"full": (1024, 0.02)}).words
    with pytest.raises(ValueError, match="2 to 8"):
        causal_work_figure(9)
    assert "few heads: ring 0.50 on 2, 0.62 on 4" in sent_by_ranks_figure(
        {"few heads": {"ring": {2: 0.5, 4: 0.62}}}, {}).words
    assert "full: predicted 1 KiB after forward, at most 4 KiB" in step_memory_figure(
        {"full": {"predicted": [1024, 4096, 0]}}).words
    drawn = step_memory_figure({"full": {"predicted": [1024, 4096, 0]}}, (512, "sbh")).figure.axes[0]
    assert drawn.get_ylabel() == "sbh held" and max(drawn.lines[0].get_ydata()) == 8
    for figure in (trade_figure, step_memory_figure, lambda panels: sent_by_ranks_figure(panels, {})):
        with pytest.raises(ValueError, match="one or more"):
            figure({})
