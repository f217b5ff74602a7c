"""Recomputation against torch.utils.checkpoint, its FLOPs against torch's counter, its memory against what a rank holds."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from grader.exercises.references import functions_of
from utils import run_ranks
from utils.costs.activations import saved_bytes
from utils.costs.flops import FlopCounter
from utils.models.blocks import BlockGPT, TransformerBlock
from utils.models.layers import Called
from utils.models.step_memory import measured_step
from utils.models.tiny import next_byte_loss
from utils.planner.shape import ModelShape

SOLUTIONS = functions_of("solutions", "08_sequence_parallel")
Recompute, held_over_step = SOLUTIONS["Recompute"], SOLUTIONS["held_over_step"]


class Again(nn.Module):
    """A part that is run again in backward."""

    def __init__(self, part, how=Recompute.apply):
        super().__init__()
        self.part, self.how = part, how

    def forward(self, x, *_):
        return self.how(self.part, x, *self.part.parameters())


def by_torch(part, x, *parameters):
    return checkpoint(part, x, use_reentrant=False)


def step(model, x, seed=5):
    """Output, every gradient, and the next random numbers, of one pass from `seed`."""
    model, x = copy.deepcopy(model), x.clone().requires_grad_()
    torch.manual_seed(seed)
    y = model(x)
    after_forward = torch.rand(3)
    y.square().sum().backward()
    return [y.detach(), x.grad, after_forward, torch.rand(3), *(p.grad for p in model.parameters())]


def chain(wrap, n_layers=3, dtype=torch.float64):
    torch.manual_seed(1)
    return nn.Sequential(*(wrap(TransformerBlock(12, 3, p=0.2).to(dtype)) for _ in range(n_layers)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_same_numbers_as_everything_kept_and_as_torchs_checkpoint(dtype):
    torch.manual_seed(0)
    x_SBD = torch.randn(7, 2, 12).to(dtype)
    kept, ours, torchs = (step(chain(wrap, dtype=dtype), x_SBD) for wrap in
                          (lambda block: block, Again, lambda block: Again(block, by_torch)))
    for one, other, third in zip(kept, ours, torchs, strict=True):
        assert torch.equal(one, other) and torch.equal(one, third)


def test_recomputed_within_recomputed():
    torch.manual_seed(0)
    x_SBD = torch.randn(5, 1, 12, dtype=torch.float64)
    plain = chain(lambda block: block)
    for one, other in zip(step(plain, x_SBD), step(Again(chain(Again)), x_SBD), strict=True):
        torch.testing.assert_close(one, other)


def test_a_parameter_used_in_two_layers_gets_both_gradients():
    torch.manual_seed(0)
    part, x = nn.Linear(6, 6).double(), torch.randn(4, 6, dtype=torch.float64)
    for one, other in zip(step(nn.Sequential(part, nn.Tanh(), part), x),
                          step(nn.Sequential(Again(part), nn.Tanh(), Again(part)), x), strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_kept_is_the_input_alone():
    x_SBD = torch.randn(9, 2, 12)
    whole, full = TransformerBlock(12, 3), Again(TransformerBlock(12, 3))
    assert saved_bytes(full, lambda: full(x_SBD.requires_grad_())) == x_SBD.nbytes
    assert saved_bytes(whole, lambda: whole(x_SBD)) > 10 * x_SBD.nbytes


def selective(block):
    block.attention = Again(block.attention)
    return block


@pytest.mark.parametrize("recompute, wrap", [("none", lambda block: block), ("selective", selective), ("full", Again)])
@pytest.mark.parametrize("layers, s, b, h, heads", [(1, 5, 1, 8, 2), (3, 10, 2, 12, 3)])
def test_flops_are_those_of_torchs_formulas(recompute, wrap, layers, s, b, h, heads):
    model = BlockGPT(s, h, layers, heads)
    model.blocks = nn.ModuleList(map(wrap, model.blocks))
    tokens_SB = torch.randint(0, 256, (s + 1, b))
    with FlopCounter() as counter:
        next_byte_loss(model(tokens_SB[:-1]), tokens_SB[1:]).mean().backward()
    shape = ModelShape("tiny", layers, h, heads, 256, s)
    assert counter.total == shape.hardware_flops(b, recompute)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize(("s", "b", "h", "a"), [(64, 2, 64, 4), (128, 1, 64, 8)])  # the second core has 80 sbh
def test_the_memory_through_a_step_is_what_a_rank_holds(s, b, h, a, recompute):
    n_blocks, how = 3, Recompute

    def again(part):
        return Called(part, lambda part, x, *_: how.apply(part, x, *part.parameters()))

    def measured() -> list[int]:
        blocks = [TransformerBlock(h, a).bfloat16() for _ in range(n_blocks)]
        if recompute == "selective":
            for block in blocks:
                block.attention = again(block.attention)
        return measured_step(list(map(again, blocks)) if recompute == "full" else blocks,
                             torch.randn(s, b, h, dtype=torch.bfloat16))

    sbh, core = s * b * h, 5 * a * s * s * b
    in_three = [(4 * sbh, 4 * sbh), (6 * sbh + core * (recompute == "none"), 6 * sbh + core), (24 * sbh, 24 * sbh)]
    segments = [(2 * sbh, 34 * sbh + core)] if recompute == "full" else in_three
    predicted, found = held_over_step(n_blocks * segments), run_ranks(measured, 1).results[0]
    means = 2 * n_blocks * 2 * 4 * s * b  # of the LayerNorms
    for right, seen in zip(predicted, found, strict=True):
        assert right <= seen <= right + 8 * sbh + means  # what is passed on, and its gradient
