"""FullyShardOddModules, the reference: odd modules, odd uses, and what the layers of a module are."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from grader.exercises.references import functions_of
from utils import run_ranks
from utils.models.layers import cast_floats, hiding, layers_of, slices_of, tensors_in

FullyShard = functions_of("solutions", "05_zero3")["FullyShardOddModules"]
KeepingSmall = functions_of("solutions", "05_zero3")["FullyShardKeepingSmall"]
DataParallel = functions_of("solutions", "02_data_parallel")["DataParallel"]


def two_layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()


class Odd(nn.Module):
    """Takes keyword arguments and returns a dictionary with a tuple in it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, *, x):
        hidden = self.first(input=x)
        return {"outputs": (self.second(hidden), hidden)}


class Checkpointed(nn.Module):
    """Computes its first layer again in backward."""

    def __init__(self):
        super().__init__()
        self.inner = two_layers()

    def forward(self, x):
        return self.inner[2](checkpoint(lambda x: torch.tanh(self.inner[0](x)), x, use_reentrant=False))


def data(rank: int = 0, n: int = 1) -> torch.Tensor:
    return torch.linspace(-1, 1, 60, dtype=torch.float64).view(12, 5).tensor_split(n)[rank]


def trained(model, x, forward=lambda model, x: model(x), steps: int = 3, evaluate: bool = False):
    """Parameters after some steps, as AdamW makes them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(steps):
        if evaluate:
            with torch.no_grad():
                forward(model, x)
        optimizer.zero_grad()
        sum(part.square().sum(1).mean() for part in tensors_in(forward(model, x))).backward()
        if hasattr(model, "finish_gradient_synchronization"):
            model.finish_gradient_synchronization()
        optimizer.step()
    if hasattr(model, "full_parameters"):
        return model.full_parameters()
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("make, forward", [
    (lambda: nn.Linear(5, 3).double(), lambda model, x: model(x)),
    (two_layers, lambda model, x: model(x)),
    (lambda: Odd().double(), lambda model, x: model(x=x)),
    (Checkpointed, lambda model, x: model(x)),
], ids=["one layer", "a sequence", "keywords and a dictionary", "checkpointed"])
@pytest.mark.parametrize("keeps", [False, True], ids=["freed", "kept"])
def test_any_module_trains_as_in_one_process(make, forward, keeps):
    torch.manual_seed(0)
    model = make()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    expected = trained(model, data(), forward)

    def sharded(rank):
        model = make()
        model.load_state_dict(state)
        return trained(FullyShard(model, reshard_after_forward=not keeps), data(rank, 3), forward, evaluate=True)

    for found in run_ranks(sharded, 3).results:
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


def test_at_rest_each_rank_holds_its_share_and_a_forward_pass_alone_leaves_it_so():
    def looks():
        wrapped = FullyShard(two_layers())
        with torch.no_grad():
            wrapped(data())
        whole = [layer.flat_Z.untyped_storage().nbytes() for layer in wrapped.layers]
        return sum(p.numel() for p in wrapped.parameters()), whole

    run = run_ranks(looks, 4)
    assert sum(count for count, _ in run.results) == 5 * 7 + 7 + 7 * 3 + 3
    assert max(count for count, _ in run.results) <= -(-42 // 4) + -(-24 // 4)
    assert all(whole == [0, 0] for _, whole in run.results)


def test_one_optimizer_for_sharded_and_whole_parameters():
    """Two groups: one in shards, one on every rank; AdamW works number by number, so both are right."""

    def both(sharded, rank=0, n=1):
        torch.manual_seed(1)
        first, second = nn.Linear(5, 4).double(), nn.Linear(4, 3).double()
        if sharded:
            first, second = FullyShard(first), DataParallel(second)
        optimizer = torch.optim.AdamW([{"params": first.parameters()}, {"params": second.parameters(), "lr": 0.1}], lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            second(torch.tanh(first(data(rank, n)))).square().mean().backward()
            if sharded:
                first.finish_gradient_synchronization()
                second.finish_gradient_synchronization()
            optimizer.step()
        whole = first.full_parameters() if sharded else dict(first.named_parameters())
        rest = (second.module if sharded else second).named_parameters()
        return {**{f"first.{k}": v.detach() for k, v in whole.items()}, **{f"second.{k}": v.detach() for k, v in rest}}

    expected = both(False)
    for found in run_ranks(lambda rank: both(True, rank, dist.get_world_size()), 2).results:
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


def test_a_module_without_parameters_and_more_ranks_than_numbers():
    def looks(rank):
        empty, tiny = FullyShard(nn.ReLU()), FullyShard(nn.Linear(1, 1).double())
        found = trained(tiny, torch.full((2, 1), rank + 1.0, dtype=torch.float64), steps=1)
        return empty(torch.tensor([-1.0, 2.0])).tolist(), empty.full_parameters(), list(found)

    for outputs, parameters, names in run_ranks(looks, 4).results:
        assert outputs == [0.0, 2.0] and parameters == {} and names == ["weight", "bias"]


def test_norms_stay_whole_in_their_own_dtype_with_one_gradient_for_all():
    """As CS336's second assignment wants them: linear layers in shards of bfloat16, norms replicated."""

    def looks(rank):
        torch.manual_seed(rank)
        model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.LayerNorm(8), nn.Linear(8, 3, bias=False))
        wrapped = KeepingSmall(model, 9, torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            wrapped(torch.linspace(-1, 1 + rank, 16).view(2, 8)).float().square().mean().backward()
            wrapped.finish_gradient_synchronization()
            optimizer.step()
        return model[1].weight.detach(), model[1].weight.grad, [p.ndim for p in model.parameters()]

    (weight, gradient, dims), *others = run_ranks(looks, 2).results
    assert weight.dtype == gradient.dtype == torch.float32 and gradient.any() and dims == [1, 1, 1, 1]
    for found in others:
        torch.testing.assert_close(found[:2], (weight, gradient), atol=0, rtol=0)


# ── layers ──


def test_hidden_parameters_come_back_in_their_places():
    module = two_layers()
    before = list(module.named_parameters())
    with pytest.raises(KeyError), hiding(module, [p for p in module.parameters() if p.ndim == 1]):
        assert [name for name, _ in module.named_parameters()] == ["0.weight", "2.weight"]
        assert all(p.ndim == 2 for _, of_layer in layers_of(module) for p in of_layer)
        raise KeyError
    assert [name for name, _ in module.named_parameters()] == [name for name, _ in before]
    assert all(now is p for (_, now), (_, p) in zip(module.named_parameters(), before, strict=True))


def names_of(module: nn.Module) -> list[tuple[str, list[str]]]:
    modules = {one: name for name, one in module.named_modules()}
    parameters = {p: name for name, p in module.named_parameters()}
    return [(modules[layer], [parameters[p] for p in its]) for layer, its in layers_of(module)]


def test_lists_are_entered_and_children_are_layers():
    module = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.ModuleList([nn.Linear(2, 2), nn.ReLU(), nn.LayerNorm(2)])})
    assert names_of(nn.Sequential(module)) == [
        ("0.a", ["0.a.weight", "0.a.bias"]), ("0.b.0", ["0.b.0.weight", "0.b.0.bias"]),
        ("0.b.2", ["0.b.2.weight", "0.b.2.bias"])]


def test_what_is_shared_or_nobodys_belongs_to_the_whole():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))
            self.embedding, self.middle, self.head = nn.Embedding(4, 2), nn.Linear(2, 2), nn.Linear(2, 4)
            self.head.weight = self.embedding.weight
            self.again = self.middle

    assert names_of(Tied()) == [("", ["scale", "embedding.weight"]), ("middle", ["middle.weight", "middle.bias"]),
                                ("head", ["head.bias"])]


def test_every_dtype_is_a_layer_of_its_own():
    layer = nn.Linear(2, 2)
    layer.bias = nn.Parameter(layer.bias.double())
    assert names_of(nn.Sequential(layer)) == [("0", ["0.weight"]), ("0", ["0.bias"])]
    assert layers_of(nn.ReLU()) == []


def test_pieces_are_where_a_tensor_and_a_part_of_the_row_overlap():
    shapes = [torch.Size([2, 2]), torch.Size([1]), torch.Size([2])]
    row = torch.arange(8)  # seven numbers, and padding
    assert [piece.tolist() for piece in slices_of(row, shapes)] == [[0, 1, 2, 3], [4], [5, 6]]
    assert [[piece.tolist() for piece in slices_of(part, shapes, first)] for part, first in zip(row.chunk(4), (0, 2, 4, 6),
            strict=True)] == [[[0, 1], [], []], [[2, 3], [], []], [[], [4], [5]], [[], [], [6]]]


def test_floats_are_cast_and_nothing_else():
    found = cast_floats(({"x": torch.ones(2), "ids": torch.ones(2, dtype=torch.int64)}, "text"), torch.bfloat16)
    assert found[0]["x"].dtype == torch.bfloat16 and found[0]["ids"].dtype == torch.int64 and found[1] == "text"
