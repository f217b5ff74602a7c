"""Unit 08: terms against what autograd keeps, conjugates, the block against torch's engine, the paper's claims."""

import pytest
import torch
import torch.distributed as dist
from matplotlib.patches import FancyArrowPatch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

from grader.exercises.references import functions_of
from utils import figures, run_ranks
from utils.costs.activations import saved_by_part, saved_bytes
from utils.costs.tables import read_table
from utils.deadlocks.errors import RankFailed
from utils.models.blocks import Attention, BlockGPT, FusedAttention, TransformerBlock
from utils.models.shards import CUT_DIMS, cut_block, piece
from utils.models.tiny import same_start

REFERENCE = functions_of("solutions", "08_sequence_parallel")
PLAN = {"attention_norm": SequenceParallel(sequence_dim=0), "mlp_norm": SequenceParallel(sequence_dim=0),
        "qkv": ColwiseParallel(input_layouts=Shard(0)), "up": ColwiseParallel(input_layouts=Shard(0)),
        "out": RowwiseParallel(output_layouts=Shard(0)), "down": RowwiseParallel(output_layouts=Shard(0))}


def reference(name: str):
    return REFERENCE[name]


def a_block(dim: int = 24, heads: int = 4, dtype: torch.dtype = torch.float64) -> TransformerBlock:
    block = same_start(TransformerBlock, dim=dim, n_heads=heads, p=0.0)
    for p in block.parameters():
        p.data += torch.linspace(-0.3, 0.3, p.numel()).view_as(p)
    return block.to(dtype)


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


# ── what is kept ──


@pytest.mark.parametrize(("s", "b", "h", "a"), [(16, 1, 24, 2), (33, 3, 40, 5), (64, 2, 32, 8), (1, 1, 8, 1)])
def test_every_term_is_what_autograd_keeps(s, b, h, a):
    block = same_start(TransformerBlock, dim=h, n_heads=a).bfloat16()
    x_SBD = numbers(s, b, h, dtype=torch.bfloat16).requires_grad_()
    measured = saved_by_part(block, lambda: block(x_SBD))
    counted = reference("activation_terms")(s, b, h, a)
    assert measured.keys() == counted.keys()
    for part, size in counted.items():
        means = 2 * 4 * s * b if part.endswith("norm") else 0
        assert size <= measured[part] <= size + means, part


@pytest.mark.parametrize(("s", "b", "h", "a"), [(2048, 4, 6144, 64), (7, 3, 10, 5)])
def test_the_terms_add_up_to_34_and_5as_over_h(s, b, h, a):
    total = sum(reference("activation_terms")(s, b, h, a).values())
    assert total == s * b * h * 34 + 5 * a * s * s * b
    assert total == pytest.approx(reference("activation_bytes")(s, b, h, a, 1, False, "none"))


@pytest.mark.parametrize(("n", "b", "h", "a"), [(1, 1, 24, 2), (2, 2, 24, 6), (4, 1, 32, 4)])
def test_a_rank_keeps_what_the_formula_says(n, b, h, a):
    """34/t and 5as/(ht) of 16-bit numbers, masks of a byte; LayerNorm's means besides."""
    s = 8

    def kept() -> int:
        wrapped = reference("SequenceParallelBlock")(same_start(TransformerBlock, dim=h, n_heads=a).bfloat16())
        x_PBD = numbers(s, b, h, dtype=torch.bfloat16).requires_grad_()
        return saved_bytes(wrapped, lambda: wrapped(x_PBD))

    formula = reference("activation_bytes")(s * n, b, h, a, n, True, "none")
    for found in run_ranks(kept, n).results:
        assert formula <= found <= formula + 4 * 4 * s * b


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_full_recomputation_keeps_the_input_as_the_rank_has_it(n, is_cut):
    """A piece, 2sbh/t, around the unit's own block; table 2's 2sbh around one that is given whole sequences."""
    s, b, h, a = 8, 2, 24, 4

    def kept() -> int:
        plain = same_start(TransformerBlock, dim=h, n_heads=a).bfloat16()
        block = reference("SequenceParallelBlock")(plain) if is_cut else plain
        x = numbers(s // n if is_cut else s, b, h, dtype=torch.bfloat16).requires_grad_()
        return saved_bytes(block, lambda: reference("Recompute").apply(block, x, *block.parameters()))

    formula = reference("activation_bytes")(s, b, h, a, n, is_cut, "full")
    assert set(run_ranks(kept, n).results) == {formula}


def test_the_fused_core_is_the_one_that_is_written_out():
    qkv_SBQ = numbers(6, 2, 3 * 8)
    torch.testing.assert_close(FusedAttention(4, 0.0)(qkv_SBQ), Attention(4, 0.0)(qkv_SBQ))


def test_a_storage_counts_once_and_parameters_do_not():
    layer, x = nn.Linear(4, 4, bias=False), numbers(3, 4, dtype=torch.float32).requires_grad_()
    assert saved_by_part(nn.Sequential(layer), lambda: layer(x)) == {"0": x.nbytes}
    assert saved_bytes(layer, lambda: (x * x).sum()) == x.nbytes


def test_the_bars_lose_no_byte():
    counted = reference("activation_terms")(128, 2, 256, 8)
    words = figures.activation_bars([("counted", counted | {"elsewhere": 1024})]).words
    assert figures.human_bytes(sum(counted.values()) + 1024) in words and "elsewhere 1 KiB" in words
    assert f"core of attention {figures.human_bytes(5 * 8 * 128**2 * 2)}" in words


# ── the paper (Korthikanti et al., arXiv 2205.05198) ──


def test_5as_over_h_of_the_papers_models():
    """Section 5: 80 for GPT-3 and 64 for MT-NLG; selective recomputation saves 70 % and 65 % of what is kept."""
    of_sizes = reference("activation_bytes")
    for h, a, core, saved in ((12288, 96, 80, 0.70), (20480, 128, 64, 0.65)):
        assert 5 * a * 2048 / h == core
        before, after = (of_sizes(2048, 1, h, a, 8, True, how) for how in ("none", "selective"))
        assert 1 - after / before == pytest.approx(saved, abs=0.005)


def test_both_techniques_leave_less_than_a_fifth():
    """Section 6.1: each alone about halves what tensor parallelism keeps; together it is less than 20 %, a factor of 5."""
    for row in read_table("recompute_tables_22B_175B"):
        sizes = 2048, row["mbs"], row["hidden"], row["heads"], row["tp"]
        of = {key: reference("activation_bytes")(*sizes, *key) for key in (
            (False, "none"), (True, "none"), (False, "selective"), (True, "selective"))}
        before = of[False, "none"]
        assert 0.45 < of[True, "none"] / before < 0.70 and 0.45 < of[False, "selective"] / before < 0.70
        assert of[True, "selective"] / before < 0.2


# ── figures ──


def test_the_schematic_says_in_words_what_each_operator_does():
    words = figures.conjugates_figure(3).words
    assert "before the cut weights: sends nothing forward, all-reduce backward" in words
    assert "after the cut weights: reduce-scatter forward, all-gather backward" in words
    with pytest.raises(ValueError, match="from 2 to 6; got 7"):
        figures.conjugates_figure(7)


def test_the_parts_of_a_block_are_joined_by_arrows():
    """One in front of each part and each sum, one from each half's input to its sum, v's, one out of the block."""
    (axes,) = figures.block_parts_figure().figure.axes
    arrows = [artist for artist in axes.get_children() if isinstance(artist, FancyArrowPatch)]
    assert len(arrows) == (8 + 1) + (5 + 1) + 2 + 1 + 1
    key = {"LayerNorms", "core of attention", "qkv and out", "MLP", "masks outside the core"}
    assert key <= {text.get_text() for text in axes.texts}


def test_the_drift_needs_a_loss_for_each_name():
    assert "summed: loss from 5.000 to 4.000, difference in the end 0" in figures.drift_figure(
        {"summed": [5.0, 4.0]}, {"summed": [0.0, 0.0]}).words
    with pytest.raises(ValueError, match="same names"):
        figures.drift_figure({"summed": [5.0]}, {"forgotten": [0.1]})


# ── conjugates ──


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_gather_and_scatter_are_conjugates(n):
    """⟨gather x, y⟩ over all ranks = ⟨x, scatter y⟩ over all ranks; and backward of the one is forward of the other."""

    def both(rank):
        gather, scatter = reference("GatherSequence"), reference("ScatterSequence")
        x, y = numbers(3, 2, 5, seed=rank).requires_grad_(), numbers(3 * n, 2, 5, seed=rank + 50).requires_grad_()
        whole, part = gather.apply(x, None), scatter.apply(y, None)
        dx, = torch.autograd.grad(whole, x, y.detach())
        dy, = torch.autograd.grad(part, y, x.detach())
        assert torch.equal(dx, part.detach()) and torch.equal(dy, whole.detach())
        return float((whole * y).sum()), float((x * part).sum())

    left, right = zip(*run_ranks(both, n).results, strict=True)
    assert sum(left) == pytest.approx(sum(right))


# ── the block ──


def gradients_at(n: int, dtype: torch.dtype, make) -> list[dict[str, torch.Tensor]]:
    """Of each rank: y, dx and the gradients of a block made of a plain one by make(block)."""

    def passes(rank):
        block = a_block(dtype=dtype)
        x_PBD, dy_PBD = (piece(numbers(12, 2, 24, seed=s, dtype=dtype), rank, n) for s in (1, 2))
        x_PBD.requires_grad_()
        wrapped = make(block)
        y_PBD = wrapped(x_PBD)
        y_PBD.backward(dy_PBD)
        getattr(wrapped, "reduce_gradients", lambda: None)()
        named = dict(getattr(wrapped, "block", wrapped).named_parameters())
        return {"y": y_PBD.detach(), "dx": x_PBD.grad} | {name: local_of(p.grad, name, rank, n) for name, p in named.items()}

    return run_ranks(passes, n).results


def local_of(gradient: torch.Tensor, name: str, rank: int, n: int) -> torch.Tensor:
    """Of a distributed gradient what a rank has after cut_block: its piece of the cut ones, the whole of the others."""
    if not hasattr(gradient, "full_tensor"):
        return gradient
    whole = gradient.full_tensor()
    return piece(whole, rank, n, CUT_DIMS[name]) if name in CUT_DIMS else whole


def torchs(block: TransformerBlock) -> nn.Module:
    return parallelize_module(block, init_device_mesh("cpu", (dist.get_world_size(),)), PLAN)


def own(block: TransformerBlock) -> nn.Module:
    return reference("SequenceParallelBlock")(block)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_block_has_the_gradients_of_torchs_engine(n):
    for found, expected in zip(gradients_at(n, torch.float64, own), gradients_at(n, torch.float64, torchs), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2**-4)])
def test_the_block_in_fewer_digits(dtype, tolerance):
    """Against one rank in float64, as a share of each tensor's largest number."""
    exact = gradients_at(1, torch.float64, own)[0]
    for rank, found in enumerate(gradients_at(2, dtype, own)):
        for name, value in found.items():
            whole = exact[name]
            dim = 0 if name in ("y", "dx") else CUT_DIMS.get(name)
            expected = whole if dim is None else piece(whole, rank, 2, dim)
            assert (value.double() - expected).abs().max() <= tolerance * whole.abs().max(), name


def test_only_gathers_and_scatters_and_one_small_sum():
    def passes(rank):
        wrapped = own(a_block())
        wrapped(numbers(3, 2, 24).requires_grad_()).sum().backward()
        wrapped.reduce_gradients()

    run = run_ranks(passes, 4)
    counts = {op: len(run.trace.of(0, op)) for op in ("all_gather", "reduce_scatter", "all_reduce")}
    assert counts == {"all_gather": 6, "reduce_scatter": 4, "all_reduce": 1}
    assert run.trace.of(0, "all_reduce")[0].bytes == 8 * 6 * 24


# ── bad input ──


def refused(call, *words: str, n: int = 2) -> None:
    with pytest.raises(RankFailed) as caught:
        run_ranks(call, n)
    assert "ValueError" in str(caught.value) and all(word in str(caught.value) for word in words), str(caught.value)


def test_a_sequence_that_the_ranks_do_not_divide_is_refused():
    refused(lambda: reference("ScatterSequence").apply(torch.ones(7, 2, 2), None), "2 ranks", "7 positions")
    refused(lambda: reference("ScatterSequence").apply(torch.ones(2, 3, 2), None), "3 ranks", "2 positions", n=3)


def test_a_gpt_whose_sequence_is_shorter_than_the_ranks_is_refused():
    tokens = torch.ones(2, 3, dtype=torch.int64)
    refused(lambda: reference("SequenceParallelGPT")(same_start(BlockGPT, dim=12, n_heads=3)).loss(tokens, tokens),
            "3 ranks", "size of 2", n=3)


def test_heads_that_the_ranks_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="2 ranks do not divide 3 heads"):
        cut_block(same_start(TransformerBlock, dim=6, n_heads=3), 0, 2)
    with pytest.raises(ValueError, match="5 heads do not divide a width of 12"):
        TransformerBlock(12, 5)
