"""A published training run, executed by the simulator: the course's own program, on a described cluster, beside print."""

import functools

import pytest
import torch
import torch.distributed as dist
from torch import nn

from grader.exercises.references import functions_of
from utils import simulate_ranks, span
from utils.costs.tables import read_table
from utils.models.blocks import BlockGPT, MaskDropout
from utils.models.mesh_stage import _through
from utils.models.shards import cut_block
from utils.models.tiny import next_byte_loss
from utils.planner.layout import Layout
from utils.planner.plan import plan
from utils.planner.published import model_named

GPT, RANKS, ROWS, DROPOUT = model_named("GPT 22B"), 8, 4, 0.1
PRODUCTS_PER_S = 0.7 * 312e12  # what the ready A100's products reach
PRINTED = next(row for row in read_table("recompute_tables_22B_175B") if row["model"] == "22B")
UNIT_08 = functions_of("solutions", "08_sequence_parallel")
Recompute, SequenceParallelGPT = UNIT_08["Recompute"], UNIT_08["SequenceParallelGPT"]


def sequence_parallel(n_layers: int):
    """Sequence parallel, the attention core recomputed: the printed 1.10 s."""
    gpt_of, again = SequenceParallelGPT, Recompute

    class Again(nn.Module):
        def __init__(self, part: nn.Module):
            super().__init__()
            self.part = part

        def forward(self, x_SBE):
            return again.apply(self.part, x_SBE)

    class WrittenOut(nn.Module):
        """Dropout in four operations, which are not fused any more than the others are."""

        def forward(self, x):
            return x * (torch.rand(x.shape) >= DROPOUT) / (1 - DROPOUT)

    def step():
        with span("build"):
            gpt = gpt_of(_gpt(n_layers))
            for layer in gpt.blocks:
                block = layer.block
                block.attention.dropout = block.attention_dropout = block.mlp_dropout = WrittenOut()
                block.attention = Again(block.attention)
            optimizer, tokens_SB = torch.optim.AdamW(gpt.parameters()), _tokens()
        gpt.loss(tokens_SB, tokens_SB).backward()
        gpt.reduce_gradients()
        optimizer.step()

    return step


def tensor_parallel(n_layers: int):
    """Tensor parallel, every layer recomputed: the printed 1.42 s. (Dropout of the attention weights only.)"""
    through, again = _through, Recompute

    def step():
        with span("build"):
            gpt = _gpt(n_layers)
            blocks = nn.ModuleList(cut_block(block, dist.get_rank(), RANKS) for block in gpt.blocks)
            for block in blocks:
                block.attention.dropout = MaskDropout(DROPOUT)
            gpt.blocks = blocks
            optimizer, tokens_SB = torch.optim.AdamW(gpt.parameters()), _tokens()
        x_SBD = gpt.embedding(tokens_SB) + gpt.positions(torch.arange(len(tokens_SB)))[:, None]
        for block in blocks:
            x_SBD = again.apply(lambda x, block=block: through(block, x, None), x_SBD, *block.parameters())
        next_byte_loss(gpt.head(gpt.norm(x_SBD)), tokens_SB).mean().backward()
        optimizer.step()

    return step


def _gpt(n_layers: int) -> BlockGPT:
    return BlockGPT(GPT.sequence, GPT.width, n_layers, GPT.heads, DROPOUT).bfloat16()


def _tokens() -> torch.Tensor:
    return torch.zeros(GPT.sequence, ROWS, dtype=torch.long)


@functools.cache
def causes(program) -> dict[str, float]:
    """Seconds of a step of all 48 layers, by cause. They are alike: one layer, and 47 times what a second one adds."""
    of = {}
    for n_layers in (1, 2):
        run = simulate_ranks(program(n_layers), RANKS, "A100")
        built_s = max(one.end_s for one in run.trace.spans if one.name == "build")
        products_s, work_s = run.works[0].flops / PRODUCTS_PER_S, run.works[0].seconds - built_s
        of[n_layers] = products_s, work_s - products_s, run.elapsed_s - built_s - work_s
    whole = [one + (GPT.layers - 1) * (two - one) for one, two in zip(of[1], of[2], strict=True)]
    logits = 3 * GPT.forward_flops(ROWS).part("logits") / RANKS / PRODUCTS_PER_S  # of 51,200; the program has 256
    return dict(zip(("products", "memory", "messages"), (whole[0] + logits, *whole[1:]), strict=True))


LAYOUTS = {tensor_parallel: {"recompute": "full"},
           sequence_parallel: {"recompute": "selective", "sequence_parallel": True}}


@pytest.mark.long
@pytest.mark.parametrize("program, column", [(tensor_parallel, "iter_full_s"), (sequence_parallel, "iter_present_s")])
def test_a_step_of_22b_takes_as_long_as_printed_within_a_twentieth(program, column):
    """2205.05198, table 5: eight A100s, tensor parallel, four sequences of 2,048. Nothing is fitted.

    Two errors offset each other: the program's elementwise operations are not fused, and take 0.1 to 0.2 s longer than fused
    ones (the planner's count); so there products can have reached only 56 to 63 % of the peak, not 70. Launches are not
    counted: operations of this size take longer than it takes to start them.
    """
    seconds = causes(program)
    layout = Layout(tp=RANKS, micro_batch=ROWS, **LAYOUTS[program])
    planned = plan(GPT, layout, "A100", ROWS).times
    fused_s = planned["elementwise"] + planned["optimizer"]
    assert 0.1 < seconds["memory"] - fused_s < 0.2
    left_s = PRINTED[column] - fused_s - seconds["messages"]
    assert 0.55 < 0.7 * seconds["products"] / left_s < 0.64
    assert seconds["products"] == pytest.approx(planned["compute"], rel=0.001)
    assert 0.95 < sum(seconds.values()) / PRINTED[column] < 1.05, seconds


@pytest.mark.long
def test_full_recomputation_costs_what_is_printed():
    """29 % of the throughput: a quarter of products, the elementwise work of a forward pass, and two all-reduces a layer."""
    full, present = causes(tensor_parallel), causes(sequence_parallel)
    gain = sum(full.values()) / sum(present.values()) - 1
    assert 100 * gain == pytest.approx(PRINTED["tput_gain_pct"], abs=4)
    assert full["products"] / present["products"] == pytest.approx(1.29, abs=0.03)
