"""Split linear layers and the MLP, the references: beside torch's ColwiseParallel and RowwiseParallel, and one process."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from grader.exercises.references import functions_of
from utils import run_ranks
from utils.deadlocks.errors import RankFailed
from utils.figures import layer_times, split_figure
from utils.models.shards import own_part, own_slice

UNIT = functions_of("solutions", "06_tensor_parallel")
GatheredLinear, CopyToGroup, ReduceFromGroup = (UNIT[name] for name in ("GatheredLinear", "CopyToGroup", "ReduceFromGroup"))
ColumnParallelLinear, RowParallelLinear, ParallelMLP = (UNIT[name] for name in (
    "ColumnParallelLinear", "RowParallelLinear", "ParallelMLP"))
WORLDS = (1, 2, 3, 4)
# float32 differs by the order of sums, bfloat16 by the rounding of n terms and of their sum: 8 binary digits each
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2.0**-5}


class MLP(nn.Module):
    """Its inner size, 36, is divided by 1, 2, 3 and 4; no other size is a power of two."""

    def __init__(self, gated: bool = False, bias: bool = True):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(7, 36, bias=bias), nn.Linear(36, 7, bias=bias)
        self.gate = nn.Linear(7, 36, bias=bias) if gated else None

    def forward(self, x):
        return self.down(F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x))


def passed(module, dtype=torch.float64, size=7) -> dict[str, torch.Tensor]:
    """y, dx, and the gradients by name, of one pass with an odd batch."""
    x = torch.linspace(-1, 1, 5 * 3 * size, dtype=torch.float64).view(5, 3, size).to(dtype).requires_grad_()
    y = module(x)
    (y * torch.linspace(1, 2, y.numel(), dtype=torch.float64).view(y.shape).to(dtype)).sum().backward()
    return {"y": y.detach(), "dx": x.grad} | {name: local(p.grad) for name, p in module.named_parameters()}


def local(gradient):
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def assert_same(found, expected, dtype):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype],
                                   msg=lambda text, name=name: f"{name}: {text}")


def parts_of(whole: dict[str, torch.Tensor], n: int, rank: int) -> dict[str, torch.Tensor]:
    """What one rank should have of a plain MLP's results."""
    dims = {"up.weight": 0, "up.bias": 0, "gate.weight": 0, "gate.bias": 0, "down.weight": 1}
    return {name: one.tensor_split(n, dims[name])[rank] if name in dims else one for name, one in whole.items()}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("gated", [False, True], ids=["GELU", "SwiGLU"])
@pytest.mark.parametrize("n", WORLDS)
def test_the_mlp_is_one_process(n, gated, dtype):
    def ours():
        whole = MLP(gated).to(dtype)
        return passed(ParallelMLP(whole.up, whole.down, gate=whole.gate), dtype)

    expected = passed(MLP(gated).double())
    for rank, found in enumerate(run_ranks(ours, n).results):
        assert_same(found, {name: one.to(dtype) for name, one in parts_of(expected, n, rank).items()}, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("n", WORLDS)
def test_the_mlp_is_torchs(n, dtype):
    def both():
        whole = MLP().to(dtype)
        ours = passed(ParallelMLP(whole.up, whole.down), dtype)
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        theirs = parallelize_module(MLP().to(dtype), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        return ours, passed(theirs, dtype)

    for ours, theirs in run_ranks(both, n).results:
        assert_same(ours, theirs, dtype)


@pytest.mark.parametrize("n", WORLDS)
def test_no_bias_and_every_group_of_ranks_for_itself(n):
    """Two groups at work at once, of n ranks each, neither of them in one piece."""
    def ours(rank):
        groups = [dist.new_group(list(range(k, 2 * n, 2))) for k in range(2)]
        whole = MLP(bias=False).double()
        return passed(ParallelMLP(whole.up, whole.down, groups[rank % 2]))

    expected = passed(MLP(bias=False).double())
    for rank, found in enumerate(run_ranks(ours, 2 * n).results):
        assert_same(found, parts_of(expected, n, rank // 2), torch.float64)


@pytest.mark.parametrize("n", WORLDS)
def test_gathered_layers_one_behind_the_other_are_one_process(n):
    def chain(linear, take):
        torch.manual_seed(1)
        weights = {name: nn.Parameter(take(torch.randn(*shape, dtype=torch.float64)))
                   for name, shape in (("up", (24, 7)), ("down", (12, 24)))}
        x = torch.linspace(-1, 1, 35, dtype=torch.float64).view(5, 7).requires_grad_()
        y = linear(torch.tanh(linear(x, weights["up"])), weights["down"])
        y.square().sum().backward()
        return {"y": y.detach(), "dx": x.grad} | {name: one.grad for name, one in weights.items()}

    whole = chain(F.linear, lambda w: w)
    ours = run_ranks(lambda: chain(lambda x, w: GatheredLinear.apply(x, w, None), lambda w: own_part(w, 0, None)), n).results
    for rank, found in enumerate(ours):
        assert_same(found, {name: one.tensor_split(n)[rank] if name in ("up", "down") else one
                            for name, one in whole.items()}, torch.float64)


@pytest.mark.parametrize("n", WORLDS)
def test_f_and_g_are_each_others_adjoint(n):
    """What comes out forward · what goes in backward = what went in forward · what comes out backward, over all ranks."""
    def products(rank):
        torch.manual_seed(2)
        same = torch.randn(2, 11, dtype=torch.float64)
        torch.manual_seed(3 + rank)
        own = torch.randn(2, 11, dtype=torch.float64)
        found = []
        for function, x, dy in ((CopyToGroup, same[0], own[0]), (ReduceFromGroup, own[1], same[1])):
            x = x.clone().requires_grad_()
            y = function.apply(x, None)
            y.backward(dy)
            found.append(((y * dy).sum().item(), (x * x.grad).sum().item()))
        return found

    results = run_ranks(products, n).results
    (f_out, f_in), (g_out, g_in) = ([[one[k][side] for one in results] for side in (0, 1)] for k in (0, 1))
    assert sum(f_out) == pytest.approx(f_in[0]) and len(set(f_in)) == 1  # x is one tensor, the same on all ranks
    assert g_out[0] == pytest.approx(sum(g_in)) and len(set(g_out)) == 1  # y is one tensor


def test_a_trained_rank_keeps_its_part_of_what_one_process_trains():
    def trained(module):
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.05)
        for _ in range(4):
            optimizer.zero_grad()
            passed(module)
            optimizer.step()
        return {name: p.detach() for name, p in module.named_parameters()}

    def ours():
        whole = MLP(gated=True).double()
        return trained(ParallelMLP(whole.up, whole.down, gate=whole.gate))

    expected = trained(MLP(gated=True).double())
    for rank, found in enumerate(run_ranks(ours, 3).results):
        assert_same(found, parts_of(expected, 3, rank), torch.float64)


# ── bad input ──


@pytest.mark.parametrize("make, sizes", [
    (lambda: ColumnParallelLinear(nn.Linear(4, 10)), ("10 output features", "4 ranks")),
    (lambda: RowParallelLinear(nn.Linear(10, 4)), ("10 input features", "4 ranks")),
    (lambda: ParallelMLP(nn.Linear(4, 6), nn.Linear(6, 4)), ("6 output features", "4 ranks")),
    (lambda: own_slice(3, None, "heads"), ("3 heads", "4 ranks", "pad to 4")),
])
def test_sizes_that_do_not_divide_are_named(make, sizes):
    with pytest.raises(RankFailed) as failed:
        run_ranks(lambda: make() and None, 4)
    assert "ValueError" in str(failed.value) and all(size in str(failed.value) for size in sizes)


def test_own_parts_tile_the_whole_and_keep_nothing_else_alive():
    def parts():
        whole = torch.arange(24.0, requires_grad=True).view(2, 12)
        part = own_part(whole, 1, None)
        return part, part.untyped_storage().nbytes() == part.nbytes and not part.requires_grad

    found = run_ranks(parts, 3).results
    assert torch.equal(torch.cat([part for part, _ in found], 1), torch.arange(24.0).view(2, 12))
    assert all(alone for _, alone in found)


# ── figures ──


@pytest.mark.parametrize("draw, message", [
    (lambda: split_figure(["inputs", "outputs"]), "can draw"),
    (lambda: split_figure(["outputs"], n_ranks=1), "2 to"),
    (lambda: split_figure(["outputs"], backward=True), "backward only the last"),
    (lambda: layer_times([2, 4], [1.0], [1.0, 2.0], {"a": 1.0}), "2 numbers of ranks, 1 of bytes"),
    (lambda: layer_times([], [], [], {}), "0 numbers"),
])
def test_figures_name_what_they_can_draw(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_attention_is_drawn_to_one_scale():
    figure = split_figure(["outputs", "inputs"], names=("W_q W_k W_v", "attention", "W_out")).figure
    (left, right), (low, high) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert figure.get_figwidth() / (right - left) == pytest.approx(figure.get_figheight() / (high - low))
    widths = [patch.get_width() for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert sum(width == pytest.approx(0.2) for width in widths) == 7 * 3  # W_q, W_k, W_v, q, k, v, results: 3 ranks each


def test_the_words_of_a_figure_say_what_is_drawn():
    assert "W₁ is divided by outputs" in (words := split_figure(["outputs", "inputs"], 4).words)
    assert "W₂ is divided by inputs, and g sums" in words and "4 ranks" in words
    back = split_figure(["outputs", "inputs"], 4, backward=True).words
    assert "backward pass" in back and "W₁ is divided by outputs, and f sums" in back and "W₂ is divided by inputs" in back
    picture = layer_times([2, 8], [300e6, 600e6], [0.03, 0.0075], {"a link": 300.0}, node=8)
    assert [text.get_text() for text in picture.figure.axes[0].texts] == ["7.5", "2.0", "8 GPUs: a full node"]
    words = picture.words
    longer = layer_times([2, 4], [300e6] * 2, [0.03, 0.01], {"a link": 300.0}, node=2, inside=["a link"],
                         more_s={"nodes": {2: 0.001, 4: 0.004}}, computing="at half")
    assert "; nodes: 1 ms on 2 ranks, 4 ms on 4 ranks." in longer.words
    assert "a link crosses" not in longer.words
    crossed = layer_times([2, 8], [300e6, 600e6], [0.004, 0.001], {"a link": 300.0})  # 4 and 1 ms against 1 and 2 ms
    assert "a link crosses the computation at 5 ranks" in crossed.words  # 4 = 2·(8/2)^(2/3) is 5.04
    assert [text.get_text() for text in crossed.figure.axes[0].texts] == ["n = 5"]
    assert [text.get_text() for text in longer.figure.axes[0].get_legend().texts] == ["at half", "nodes", "a link, 300 GB/s"]
    lines = {line.get_label(): line for line in longer.figure.axes[0].lines}
    assert "at half" in lines and list(lines["a link, 300 GB/s"].get_xdata()) == [2]  # dotted from here on
    assert "computing: 30 ms on 2 ranks, 7.5 ms on 8 ranks" in words and "a link: 1 ms on 2 ranks, 2 ms on 8 ranks" in words
