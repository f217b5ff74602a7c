"""Passes of a stage count where the micro-batches' own numbers went through, and all the way: without ranks."""

import pytest
import torch

from grader.calling.pipelining import WatchedStage, mean_loss
from grader.exercises import EXERCISES
from grader.judging.exercise import Look
from tests.test_seen import unseen
from utils.trace.spans import RECORDER
from utils.trace.trace import Span, Trace

TRIALS = {trial.case.name: trial for trial in EXERCISES["gpipe_step"].trials(0, grading=False) if trial.case.world_size == 1}
DEMAND = next(demand for demand in EXERCISES["gpipe_step"].technique.demands if demand.id == "other numbers")


class Noting:
    """A recorder that keeps marks."""

    def __init__(self):
        self.spans = []

    def mark(self, name, **facts):
        self.spans.append(Span(0, name, len(self.spans), len(self.spans), facts))


def judged(step):
    """(met, in a few words) of step(stage, xs, ys) on the only rank there is."""
    (trial,), noting = TRIALS.values(), Noting()
    inputs = trial.case.inputs[0]
    before = RECORDER.set(noting)
    try:
        step(WatchedStage(inputs["layers"]), *(inputs[name].chunk(inputs["n_micro"]) for name in ("x", "y")))
    finally:
        RECORDER.set(before)
    evidence = unseen(trial).evidence
    return DEMAND.judge(Look(trial.case, trial.right, type(evidence)(
        evidence.outputs, evidence.ending, Trace(1, spans=tuple(noting.spans)))))


def plainly(stage, xs, ys, factor=1.0):
    for x, y in zip(xs, ys, strict=True):
        (factor * mean_loss(stage(x), y)).backward()


def every_other_row(stage, xs, ys):
    rows = torch.cat(xs), torch.cat(ys)
    plainly(stage, *([each[k::len(xs)] for k in range(len(xs))] for each in rows))


def gradients_by_hand(stage, xs, ys):
    for x, y in zip(xs, ys, strict=True):
        output = stage(x)
        leaf = output.detach().requires_grad_()
        dy, = torch.autograd.grad(mean_loss(leaf, y), leaf)
        torch.autograd.grad((output * dy).sum(), list(stage.parameters()))


@pytest.mark.parametrize("step", [plainly, every_other_row, gradients_by_hand,
                                  lambda *of: plainly(*of, factor=0.5)])
def test_whatever_way_the_micro_batches_themselves_go_through(step):
    assert judged(step) == (True, "")


def on_zeros(stage, xs, ys):
    for x in xs:
        output = stage(torch.zeros_like(x))
        output.backward(torch.zeros_like(output))


def zeros_backward(stage, xs, ys):
    for x in xs:
        output = stage(x)
        output.backward(torch.zeros_like(output))


def one_gradient_larger(stage, xs, ys):
    for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
        ((1 + number / 1e4) * mean_loss(stage(x), y)).backward()


def through_nothing(stage, xs, ys):
    layers, stage.layers = stage.layers, torch.nn.Identity()
    outputs = [stage(x.clone().requires_grad_()) for x in xs]
    stage.layers = layers
    for output, x, y in zip(outputs, xs, ys, strict=True):
        found = stage.layers(x).detach().requires_grad_()
        mean_loss(found, y).backward()
        output.backward(found.grad.new_ones(output.shape))


@pytest.mark.parametrize("step, words", [
    (on_zeros, "what went in are no rows of the batch"),
    (lambda stage, xs, ys: plainly(stage, xs[:1] * len(xs), ys), "rows go through that were in another pass"),
    (lambda stage, xs, ys: plainly(stage, [*xs, xs[0]], [*ys, ys[0]]), "passes, wanted"),
    (lambda stage, xs, ys: [stage(x).detach() for x in xs], "the gradient of what came out was not seen"),
    (zeros_backward, "the gradient of what came out has other numbers"),
    (one_gradient_larger, "the gradient of what came out has other numbers"),
    (through_nothing, "what came out has other numbers"),
])
def test_passes_on_other_numbers_do_not_count(step, words):
    met, said = judged(step)
    assert not met and words in said
