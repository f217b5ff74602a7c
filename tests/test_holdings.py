"""Who holds which parameters, gradients and optimizer state at each moment of a step."""

import functools
import itertools

import pytest
import torch
import torch.distributed as dist

from grader.exercises.references import functions_of
from utils import run_ranks, widgets
from utils.figures.holdings import Holdings
from utils.models import DeepMLP, same_start
from utils.models.layers import layers_of
from utils.trace.holdings import watch_layers
from utils.trace.trace import Trace

DataParallel = functions_of("solutions", "02_data_parallel")["DataParallel"]
GradientBuckets, Zero2 = map(functions_of("solutions", "04_zero2").get, ("GradientBuckets", "Zero2"))
FullyShard = functions_of("solutions", "05_zero3")["FullyShard"]


def with_adam(model):
    return model, torch.optim.AdamW(model.parameters())


def zero_2(model):
    buckets = GradientBuckets(model, 1, 1, dist.group.WORLD)
    model.finish_gradient_synchronization = buckets.finish
    return model, Zero2(model, buckets, torch.optim.AdamW)


WAYS = {"data parallel": lambda model: with_adam(DataParallel(model)),
        "ZeRO-2": zero_2,
        "ZeRO-3": lambda model: with_adam(FullyShard(model))}


def step(make):
    model = same_start(DeepMLP, dim=64, n_layers=3)
    note = watch_layers(layers_of(model))
    model, optimizer = make(model)
    for _ in range(2):
        note("before the step", optimizer)
        model(torch.ones(4, 16)).logsumexp(1).mean().backward()
        getattr(model, "finish_gradient_synchronization", lambda: None)()
        note("after the backward pass")
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture(scope="module")
def traces():
    return {name: run_ranks(functools.partial(step, make), 2).trace for name, make in WAYS.items()}


@pytest.mark.parametrize("name, moment, parameters, gradients", [
    ("data parallel", "layer 2 has computed forward", "whole of layers 1, 2, 3", "none"),
    ("data parallel", "layer 2's gradient is complete", "whole of layers 1, 2, 3", "whole of layers 2, 3"),
    ("ZeRO-2", "layer 2's gradient is complete", "whole of layers 1, 2, 3", "whole of layer 2 and a shard of layer 3"),
    ("ZeRO-3", "layer 2 has computed forward", "whole of layer 2 and a shard of layers 1, 3", "none"),
    ("ZeRO-3", "after the backward pass", "a shard of layers 1, 2, 3", "a shard of layers 1, 2, 3"),
])
def test_what_a_rank_holds_is_what_its_stage_keeps(traces, name, moment, parameters, gradients):
    step = Holdings(traces[name])
    words = step.picture(step.names.index(moment)).words
    assert f"Rank 1: parameters {parameters} (" in words and f"gradients {gradients} (" in words


def test_bytes_of_gradients_and_state_are_divided_as_the_stage_says(traces):
    held = {name: Holdings(trace).held(1, "after the backward pass").bytes for name, trace in traces.items()}
    for kind in ("gradients", "optimizer state"):
        for name in ("ZeRO-2", "ZeRO-3"):
            assert held[name][kind] == pytest.approx(held["data parallel"][kind] / 2, rel=0.05), (kind, name)


def test_every_run_is_played_at_the_same_moments_on_one_scale(traces):
    player = widgets.holdings_player(traces)
    play, moment, run = player.children[0].children
    assert play.max == moment.max == 7
    seen = set()
    for name, number in itertools.product(traces, range(moment.max + 1)):
        run.value, moment.value = name, number
        seen.add(player.view.value.partition('alt="')[2].partition('"')[0])
    assert len(seen) == 8 * 3 and len(player._stills()) == 3


@pytest.mark.parametrize("given", [{}, {"one": Trace(2)}])
def test_what_was_not_noted_cannot_be_played(given):
    with pytest.raises(ValueError, match="noted"):
        widgets.holdings_player(given)
