"""The solutions' pipeline steps against one plain process and torch.distributed.pipelining; bad sizes; the tiny GPT."""

import itertools

import pytest
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from grader.calling.pipelining import PASS, WatchedStage, mean_loss
from grader.exercises.references import functions_of
from utils import run_ranks
from utils.models.stages import GPTStage, begin_together, split_layers
from utils.models.text import text_batch
from utils.models.tiny import TinyGPT, next_byte_loss, same_start

SOLUTIONS = functions_of("solutions", "07_pipeline_parallel")
split_batch = SOLUTIONS["split_batch"]
reduce_tied_gradient = SOLUTIONS["reduce_tied_gradient"]

WIDTHS = (5, 7, 3, 6, 4)  # what goes into stages 0, 1, …; no power of two
TORCHS = {"gpipe_step": ScheduleGPipe, "one_f_one_b_step": Schedule1F1B}
DTYPES = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2.0 ** -6}
LAYERS, MICRO = 4, 4


def stages_of(p, dtype):
    """p stages of one layer each, with the widths above."""
    generator = torch.Generator().manual_seed(0)
    return [WatchedStage([[torch.randn(b, a, generator=generator).to(dtype), torch.randn(b, generator=generator).to(dtype)]])
            for a, b in itertools.pairwise(WIDTHS[:p + 1])]


def batch_of(p, m, dtype):
    """(x, y) of m micro-batches of 3 rows."""
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(3 * m, width, generator=generator).to(dtype) for width in (WIDTHS[0], WIDTHS[p]))


def gradients(stage):
    return [parameter.grad for parameter in stage.parameters()]


def by_the_solution(step, m, dtype, rank, world_size):
    """(the loss, or None; the gradients)"""
    stage, (x, y) = stages_of(world_size, dtype)[rank], batch_of(world_size, m, dtype)
    loss = step(stage, x if rank == 0 else None, y if rank == world_size - 1 else None, mean_loss, m,
                torch.zeros(3, WIDTHS[rank], dtype=dtype), None)
    return loss, gradients(stage)


def by_torch(schedule, m, dtype, rank, world_size):
    stage, (x, y) = stages_of(world_size, dtype)[rank], batch_of(world_size, m, dtype)
    shapes = [(torch.zeros(3, WIDTHS[r], dtype=dtype, requires_grad=r > 0),) for r in (rank, rank + 1)]
    part = PipelineStage(stage, rank, world_size, torch.device("cpu"), input_args=shapes[0], output_args=shapes[1])
    runner, losses = schedule(part, m, loss_fn=mean_loss), []
    last = rank == world_size - 1
    runner.step(*([x] if rank == 0 else []), target=y if last else None, losses=losses if last else None)
    return torch.stack(losses).mean() if last else None, gradients(stage)


def plain(p, m, dtype):
    stages, (output, y) = stages_of(p, dtype), batch_of(p, m, dtype)
    for stage in stages:
        output = stage(output)
    loss = mean_loss(output, y)
    loss.backward()
    return loss.detach(), [gradients(stage) for stage in stages]


def order_of(run):
    """For each rank its passes: ["F0", "F1", "B0", …]."""
    return [[f"{one.facts['kind']}{one.facts['micro']}" for one in run.trace.spans if one.rank == rank and one.name == PASS]
            for rank in range(run.trace.world_size)]


@pytest.mark.parametrize("p, m, dtype", [(1, 3, torch.float64), (2, 5, torch.float64), (3, 3, torch.float64),
                                         (4, 6, torch.float64), (4, 6, torch.float32), (4, 6, torch.bfloat16)])
@pytest.mark.parametrize("name", TORCHS)
def test_a_step_equals_the_plain_process_and_torchs(name, p, m, dtype):
    loss, expected = plain(p, m, dtype)
    step, schedule = SOLUTIONS[name], TORCHS[name]
    own = run_ranks(lambda rank, world_size: by_the_solution(step, m, dtype, rank, world_size), p)
    torchs = run_ranks(lambda rank, world_size: by_torch(schedule, m, dtype, rank, world_size), p)
    close = dict(rtol=DTYPES[dtype], atol=DTYPES[dtype])
    for run in (own, torchs):
        torch.testing.assert_close(run.results[-1][0], loss, **close)
        for (_, found), wanted in zip(run.results, expected, strict=True):
            torch.testing.assert_close(found, wanted, **close)
    assert order_of(own) == order_of(torchs)


# ── the tiny GPT ──


def gpt_loss(logits, tokens):
    return next_byte_loss(logits, tokens).mean()


def gpt_batch(step):
    tokens_BT = text_batch(step, 2 * MICRO, 16)
    return tokens_BT[:, :-1], tokens_BT[:, 1:]


def make_gpt():
    return same_start(TinyGPT, length=16, dim=8, n_layers=LAYERS, n_heads=2).double()


def trained(step, rank, world_size):
    """Three steps of AdamW: losses, the last gradients by name, parameters by name."""
    stage = GPTStage(make_gpt(), split_layers(LAYERS, world_size)[rank])
    optimizer, losses, like = torch.optim.AdamW(stage.parameters(), lr=0.01), [], torch.zeros(2, 16, 8, dtype=torch.float64)
    for number in range(3):
        x, y = gpt_batch(number)
        optimizer.zero_grad()
        losses.append(step(stage, x if rank == 0 else None, y if rank == world_size - 1 else None, gpt_loss, MICRO, like,
                           dist.group.WORLD))
        reduce_tied_gradient(stage.tied_weight, None)
        optimizer.step()
    named = dict(stage.named_parameters())
    return losses, {name: p.grad for name, p in named.items()}, {name: p.detach() for name, p in named.items()}


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("name", TORCHS)
def test_the_tiny_gpt_trains_as_in_one_process(name, p):
    model = make_gpt()
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=0.01), []
    for number in range(3):
        x, y = gpt_batch(number)
        loss = gpt_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    expected = dict(model.named_parameters(remove_duplicate=False))
    step, seen = SOLUTIONS[name], set()
    run = run_ranks(lambda rank, world_size: trained(step, rank, world_size), p)
    torch.testing.assert_close(run.results[-1][0], losses, rtol=1e-9, atol=1e-9)
    for _, gradients_, parameters in run.results:
        for parameter in parameters:
            torch.testing.assert_close(gradients_[parameter], expected[parameter].grad, rtol=1e-7, atol=1e-10)
            torch.testing.assert_close(parameters[parameter], expected[parameter].detach(), rtol=1e-7, atol=1e-7)
        seen |= parameters.keys()
    assert seen >= set(dict(model.named_parameters()))


# ── bad sizes ──


def test_more_stages_than_layers():
    with pytest.raises(ValueError, match=r"3 layers.*5 stages"):
        split_layers(3, 5)


def test_a_batch_that_does_not_divide():
    with pytest.raises(ValueError, match=r"10 rows.*4 micro-batches"):
        split_batch(torch.ones(10, 2), 4)


@pytest.mark.parametrize("name", TORCHS)
def test_a_step_names_the_sizes_that_do_not_divide(name):
    step, (x_BD, y_BO) = SOLUTIONS[name], batch_of(1, 2, torch.float64)  # 6 rows
    with pytest.raises(Exception, match="6 rows cannot be cut into 4 micro-batches"):
        run_ranks(lambda: step(stages_of(1, torch.float64)[0], x_BD, y_BO, mean_loss, 4, None, None), 1)


def test_ranks_begin_together_after_a_pass_that_leaves_no_gradient():
    def begin():
        module = begin_together(torch.nn.Linear(3, 2), 3)
        return all(p.grad is None for p in module.parameters())

    run = run_ranks(begin, 2)
    assert run.results == [True, True]
    assert len(run.trace.of(op="barrier")) == 2
