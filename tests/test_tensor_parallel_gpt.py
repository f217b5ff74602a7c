"""The solutions' attention, vocabulary layers and GPT in pieces, against one plain process and torch's own tensor parallel.

Tolerances, relative to a tensor's largest number: float64 1e-9; float32 1e-5 (sums in another order); bfloat16 2⁻⁵ (it keeps
8 binary digits, and a few roundings add up). Tensors below SMALL are compared as if that were their largest number: k's bias
has no gradient but rounding, for softmax does not feel what all scores share.
"""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from grader.exercises.references import functions_of
from tests.bench_tensor_parallel import torchs_gpt
from utils import RankFailed, run_ranks
from utils.models.tiny import TinyGPT, next_byte_loss, same_start

SOLUTIONS = functions_of("solutions", "06_tensor_parallel")
ParallelAttention, SharedHeads = SOLUTIONS["ParallelAttention"], SOLUTIONS["SharedHeads"]
ParallelDropout = SOLUTIONS["ParallelDropout"]
VocabularyParallelEmbedding = SOLUTIONS["VocabularyParallelEmbedding"]
VocabularyParallelCrossEntropy = SOLUTIONS["VocabularyParallelCrossEntropy"]
ColumnParallelLinear, make_tensor_parallel = SOLUTIONS["ColumnParallelLinear"], SOLUTIONS["make_tensor_parallel"]

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 2.0 ** -5}
SMALL = 0.1
D, K, STEPS = 10, 6, 3
LAYERS = ("q", "k", "v", "out")


class Attention(nn.Module):
    """Plain attention; as many heads as its layers have numbers for, so it also runs with torch's parts of them."""

    def __init__(self, n_heads, n_kv_heads):
        super().__init__()
        self.q, self.out = nn.Linear(D, n_heads * K), nn.Linear(n_heads * K, D)
        self.k, self.v = nn.Linear(D, n_kv_heads * K), nn.Linear(D, n_kv_heads * K)

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, K)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


def assert_near(found, expected, message=""):
    """Equal to the tolerance of its dtype, relative to the largest number."""
    assert found.shape == expected.shape and found.dtype == expected.dtype, message
    largest = max(SMALL, float(expected.abs().max()))
    assert float((found - expected).abs().max()) <= TOLERANCES[found.dtype] * largest, message


def passed(module, x, weights):
    """y, dx, and every parameter's gradient."""
    x = x.clone().requires_grad_()
    y = module(x)
    (y * weights).sum().backward()
    gradients = {name: p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad for name, p in module.named_parameters()}
    return {"y": y.detach(), "dx": x.grad, **gradients}


def attention_and_input(n_heads, n_kv_heads, dtype):
    plain = same_start(Attention, 3, n_heads=n_heads, n_kv_heads=n_kv_heads).to(dtype)
    x, weights = torch.randn(2, 2, 5, D, generator=torch.Generator().manual_seed(1)).to(dtype)
    return plain, x, weights


def own_attention(n_heads, n_kv_heads, dtype):
    plain, x, weights = attention_and_input(n_heads, n_kv_heads, dtype)
    return passed(split_attention(plain, n_heads, n_kv_heads), x, weights)


def split_attention(plain, n_heads, n_kv_heads):
    """Where ranks share heads of k and v, made with a head for each rank; layers of shared heads then take their places."""
    n = dist.get_world_size()
    if n <= n_kv_heads:
        return ParallelAttention(plain.q, plain.k, plain.v, plain.out, n_heads, n_kv_heads)
    one_each = nn.Linear(D, n * K, dtype=plain.q.weight.dtype)
    attention = ParallelAttention(plain.q, one_each, one_each, plain.out, n_heads, n)
    attention.k, attention.v = SharedHeads(plain.k, n_kv_heads), SharedHeads(plain.v, n_kv_heads)
    return attention


@pytest.mark.parametrize(("n_ranks", "n_heads", "n_kv_heads", "dtype"), [
    (1, 3, 3, torch.float32), (2, 6, 2, torch.float32), (3, 6, 6, torch.float32), (4, 8, 2, torch.float32),
    (4, 4, 1, torch.float64), (3, 9, 1, torch.float32), (2, 4, 2, torch.bfloat16), (4, 8, 2, torch.bfloat16)])
def test_attention_has_the_plain_processes_results_and_gradients(n_ranks, n_heads, n_kv_heads, dtype):
    expected = passed(*attention_and_input(n_heads, n_kv_heads, dtype))
    for rank, found in enumerate(run_ranks(lambda: own_attention(n_heads, n_kv_heads, dtype), n_ranks).results):
        heads = slice(rank * n_heads // n_ranks * K, (rank + 1) * n_heads // n_ranks * K)
        first = rank * n_kv_heads // n_ranks
        kv = slice(first * K, (first + max(1, n_kv_heads // n_ranks)) * K)
        for name, one in found.items():
            whole = expected[name]
            wanted = {"q": whole[heads], "k": whole[kv], "v": whole[kv]}.get(name[0], whole)
            assert_near(one, whole[:, heads] if name == "out.weight" else wanted, f"{name} on rank {rank}")


@pytest.mark.parametrize(("n_ranks", "n_heads", "n_kv_heads"), [(2, 6, 2), (3, 6, 3), (4, 8, 4)])
def test_attention_agrees_with_torchs(n_ranks, n_heads, n_kv_heads):
    def both():
        plain, x, weights = attention_and_input(n_heads, n_kv_heads, torch.float64)
        plan = dict.fromkeys(LAYERS[:3], ColwiseParallel()) | {"out": RowwiseParallel()}
        torchs = parallelize_module(plain, init_device_mesh("cpu", (n_ranks,)), plan)
        return own_attention(n_heads, n_kv_heads, torch.float64), passed(torchs, x, weights)

    for own, torchs in run_ranks(both, n_ranks).results:
        assert own.keys() == torchs.keys()
        for name in own:
            assert_near(own[name], torchs[name], name)


# ── the GPT ──


def gpt(n_heads, dtype):
    return same_start(TinyGPT, 5, dim=n_heads * 6, n_heads=n_heads, length=7).to(dtype)


def trained(make, n_heads, dtype):
    """Losses of some steps, the first gradients, the parameters at the end."""
    model = make(gpt(n_heads, dtype))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    losses, first = [], {}
    for step in range(STEPS):
        tokens = torch.randint(256, (3, 8), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = next_byte_loss(model(tokens[:, :-1]), tokens[:, 1:]).mean()
        loss.backward()
        losses.append(loss.detach())
        first = first or {f"gradient of {name}": local(p.grad).clone() for name, p in model.named_parameters()}
        optimizer.step()
    return {"losses": torch.stack(losses), **first, **{name: local(p.data) for name, p in model.named_parameters()}}


def local(value):
    return value.to_local() if isinstance(value, DTensor) else value


def part(name, whole, rank, n):
    """What of a whole parameter, or of its gradient, lies on a rank."""
    if name.endswith(("out.weight", "down.weight")):
        return whole.chunk(n, 1)[rank]
    if name.endswith(("up.weight", "up.bias")):
        return whole.chunk(n)[rank]
    return torch.cat([third.chunk(n)[rank] for third in whole.chunk(3)]) if ".qkv." in name else whole


@pytest.mark.parametrize(("n_ranks", "n_heads", "dtype"), [
    (1, 2, torch.float32), (2, 2, torch.float32), (3, 6, torch.float32), (4, 4, torch.float64), (2, 4, torch.bfloat16)])
def test_a_gpt_in_pieces_trains_as_the_plain_one(n_ranks, n_heads, dtype):
    expected = trained(lambda model: model, n_heads, dtype)
    for rank, found in enumerate(run_ranks(lambda: trained(make_tensor_parallel, n_heads, dtype), n_ranks).results):
        assert found.keys() == expected.keys()
        for name, one in found.items():
            assert_near(one, part(name, expected[name], rank, n_ranks), f"{name} on rank {rank}")


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_a_gpt_in_pieces_agrees_with_torchs(n_ranks):
    run = run_ranks(lambda: [trained(make, 4, torch.float64) for make in (make_tensor_parallel, torchs_gpt)], n_ranks)
    for own, torchs in run.results:
        assert own.keys() == torchs.keys()
        for name in own:
            assert_near(own[name], torchs[name], name)


# ── vocabulary, dropout, bad input ──


@pytest.mark.parametrize(("n_ranks", "dtype"), [(1, torch.float32), (2, torch.float64), (4, torch.float32)])
def test_tied_embedding_and_loss_by_the_vocabulary(n_ranks, dtype):
    ids, targets = torch.randint(256, (2, 9), generator=torch.Generator().manual_seed(2))
    table = torch.randn(256, 5, generator=torch.Generator().manual_seed(3)).to(dtype)

    def in_pieces():
        embedding = VocabularyParallelEmbedding(nn.Embedding.from_pretrained(table, freeze=False))
        head = ColumnParallelLinear(nn.Linear(5, 256, bias=False, dtype=dtype))
        head.weight = embedding.weight
        losses = VocabularyParallelCrossEntropy.apply(head(torch.tanh(embedding(ids))), targets, None)
        losses.mean().backward()
        return losses.detach(), embedding.weight.grad

    whole = table.clone().requires_grad_()
    losses = F.cross_entropy(torch.tanh(whole[ids]) @ whole.T, targets, reduction="none")
    losses.mean().backward()
    for rank, (found, gradient) in enumerate(run_ranks(in_pieces, n_ranks).results):
        assert_near(found, losses.detach(), f"losses on rank {rank}")
        assert_near(gradient, whole.grad.chunk(n_ranks)[rank], f"gradient on rank {rank}")


def test_split_masks_drop_the_right_share_and_agree_by_chance_only():
    def masks():
        dropout = ParallelDropout(0.4, 7, split=True)
        return torch.stack([dropout(torch.ones(400)) > 0 for _ in range(50)])

    first, *others = run_ranks(masks, 4).results
    assert abs(first.float().mean() - 0.6) < 0.02
    for other in others:
        assert abs((first == other).float().mean() - (0.6 ** 2 + 0.4 ** 2)) < 0.02


@pytest.mark.parametrize(("make", "n_ranks", "sizes"), [
    (lambda: ParallelAttention(*attention_layers(4, 4), 4, 4), 3, ("4", "3")),
    (lambda: ParallelAttention(*attention_layers(6, 2), 6, 2), 3, ("2", "3")),
    (lambda: SharedHeads(nn.Linear(D, 2 * K), 2), 3, ("2", "3")),
    (lambda: make_tensor_parallel(TinyGPT(dim=12, n_heads=4)), 3, ("4", "3")),
    (lambda: VocabularyParallelEmbedding(nn.Embedding(7, 2)), 2, ("7", "2"))],
    ids=["heads", "heads of k and v", "shared heads", "heads of a GPT", "rows"])
def test_sizes_that_do_not_divide_are_named(make, n_ranks, sizes):
    with pytest.raises(RankFailed) as caught:
        run_ranks(lambda: make() and None, n_ranks)
    first = caught.value.failures[0]
    assert "ValueError" in str(first) and all(size in str(first) for size in sizes)


def attention_layers(n_heads, n_kv_heads):
    whole = Attention(n_heads, n_kv_heads)
    return [getattr(whole, name) for name in LAYERS]
