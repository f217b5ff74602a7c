"""FlatOptimizer: all parameters in one flat buffer, of which each rank's optimizer holds one shard."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.calling.training import OPTIMIZERS, make_optimizer, parameters
from grader.calling.zoo import loss_rows
from grader.exercises.shared.cases import each_rank, group_case, once_a_group, pieces, ranks
from grader.exercises.shared.one_process import TOLERANCE, model_of
from grader.exercises.shared.training_cases import IN_WORDS, SEEDS, weighed_case, with_batches
from grader.exercises.shared.zero_cases import optimizer_for, with_rests
from grader.judging.exercise import Case, Draw, Exercise, Slip

STEPS, LR = 4, 0.05


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """The ranks divide the number of parameters of none but the first, which names no learning rate, and the MLP in a group
    of two."""

    def inputs(model: str, n: int) -> list[dict[str, Any]]:
        lr = {"lr": LR} if n > 1 else {}
        drawn = with_rests(with_batches(draw, lambda n: 2, STEPS, **lr, **optimizer_for(model, n)))
        return drawn(model, n, draw.integer(0, SEEDS))

    models = [("mlp", 1), ("tied", 2), ("seldom", 3), ("linear", 4), *([("frozen", 5)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {IN_WORDS.get(model, 'one layer')}, {optimizer_for(model, n)['optimizer']}",
                  tuple(inputs(model, n))) for model, n in models]
    weighed = weighed_case(  # of four, for whom all shares of the state have no room
        lambda model, n, seed: inputs(model, n), grading, n=4, optimizer="AdamW", options={"amsgrad": True})
    return [*cases, group_case(lambda n: inputs("mlp", n), "MLP"), *weighed]


@once_a_group
def _train(case: Case, rank: int, factor: float = 1.0, own: bool = False, piled_up: bool = False, stale: bool = False,
           made_anew: bool = False, options: Sequence[str] | None = None, behind: bool = False,
           closed_up: bool = False, rests: bool = False) -> dict[str, Any]:
    """One process on the mean gradient of all rows, zeros where there is none.

    Wrong ways: the gradient times `factor`; each piece of the row from its rank's own gradient; every step's gradient added
    to those before; the last gradient where there is none; an optimizer made anew in each step, or with some `options`
    only; a model that is a step behind; a row without room for the gradients that are not there; a parameter without a
    gradient that keeps its values.
    """
    inputs, model = case.inputs[rank], model_of(case, rank)
    trained = [p for p in model.parameters() if p.requires_grad]
    updated = [nn.Parameter(p.detach().clone()) for p in trained]
    optimizer = make_optimizer(inputs, updated) if options is None else OPTIMIZERS[inputs["optimizer"]](
        updated, **{name: inputs[name] for name in options if name in inputs})
    missing = [torch.zeros(0 if closed_up else p.numel()) for p in trained]
    earlier, last, size = torch.zeros(1), [missing] * len(case.members(rank)), sum(p.numel() for p in trained)
    for step in range(STEPS):
        batches = zip(case.peers_inputs(rank, "xs"), case.peers_inputs(rank, "ys"), strict=True)
        gradients = [_gradients(model, trained, xs[step], ys[step], before)
                     for (xs, ys), before in zip(batches, last, strict=True)]
        last = gradients if stale else last
        row = _own_shards(gradients) if own else _mean(gradients) * factor + earlier
        row, earlier = F.pad(row, (0, size - len(row))), row if piled_up else earlier
        for p, gradient in zip(updated, row.split([p.numel() for p in updated]), strict=True):
            p.grad = gradient.view_as(p)
        optimizer = make_optimizer(inputs, updated) if made_anew else optimizer
        seen = [p.detach().clone() if behind else p.detach() for p in updated]
        optimizer.step()
        for p, values, gradient in zip(trained, seen, gradients[0], strict=True):
            if not (rests and any(gradient is none for none in missing)):
                p.data.copy_(values)
    return {"parameters": parameters(model)}


def _gradients(model: nn.Module, trained: list[nn.Parameter], x: Tensor, y: Tensor, instead: list[Tensor]) -> list[Tensor]:
    """instead: what stands where there is none."""
    found = torch.autograd.grad(loss_rows(model(x), y).mean(), trained, allow_unused=True)
    return [other if gradient is None else gradient for gradient, other in zip(found, instead, strict=True)]


def _rows(gradients: list[list[Tensor]]) -> list[Tensor]:
    return [torch.cat([gradient.flatten() for gradient in of_rank]) for of_rank in gradients]


def _mean(gradients: list[list[Tensor]]) -> Tensor:
    """The flat buffer of the mean gradient."""
    return torch.stack(_rows(gradients)).mean(0)


def _own_shards(gradients: list[list[Tensor]]) -> Tensor:
    """The flat buffer with each member's shard from its own gradient."""
    rows = _rows(gradients)
    return torch.cat([pieces(row, len(rows))[member] for member, row in enumerate(rows)])[:len(rows[0])]


def _other_way(id: str, hint: str, **how: Any) -> Slip:
    """how: as _train takes it."""
    return Slip(id, hint, lambda case, r, right: _train(case, r, **how))


EXERCISE = Exercise(
    title="ZeRO-1 for a whole model",
    parameters=("params", "optimizer_class", "group"),
    make_cases=_cases,
    oracle=each_rank(_train),
    trains=True,
    measured=True,
    forbidden=("torch.distributed.optim", "torch.distributed.fsdp"),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
    slips=(
        Slip("sum for mean", "The inner optimizer steps with the sum of the gradients: divide by the number of ranks.",
             lambda case, r, right: _train(case, r, factor=float(case.group_size(r)))),
        Slip("divided by the world", "Right for the whole world, wrong in a group: divide by the number of ranks that took "
                                     "part, dist.get_world_size(group).",
             lambda case, r, right: _train(case, r, factor=case.group_size(r) / case.world_size),
             shows=lambda case: case.groups is not None),
        Slip("divided twice", "The gradient is n times too small: it is divided by n once, by your sharded_step or here.",
             lambda case, r, right: _train(case, r, factor=1 / case.group_size(r))),
        Slip("model not updated", "The model is what it was before the steps. All-gather the updated shards into the flat "
                                  "buffer; the model sees them if its parameters are views of it (p.data = a slice), or "
                                  "if you copy it back. (A generator can be run through only once: make a list.)",
             lambda case, r, right: {"parameters": parameters(model_of(case, r))}),
        _other_way("not copied back", "A parameter whose p.grad is None keeps its old values: with zeros for its gradient "
                   "the optimizer changes it all the same (momentum, weight decay): copy the whole buffer back.",
                   rests=True),
        _other_way("own gradient", "Each shard is updated with its own rank's gradient: the shard's .grad must be what the "
                                   "reduce-scatter brings, divided by n.", own=True),
        _other_way("gradients pile up", "The first step is right; later ones also hold the gradients of the steps before. "
                                        "Fill the buffer of gradients anew in each step.", piled_up=True),
        _other_way("stale gradient", "Where a parameter has no gradient this time, the buffer still holds that of an "
                                     "earlier step: fill it with zeros first.", stale=True),
        _other_way("a step behind", "The model is a step behind: first let the inner optimizer step, then gather the "
                                    "shards.", behind=True),
        _other_way("made anew", "Each step begins without momentum, as if it were the first: make the inner optimizer once, "
                                "in __init__, so that its state is kept.", made_anew=True),
        _other_way("options lost", "The inner optimizer works with its default learning rate and momentum: hand **options "
                                   "on to optimizer_class.", options=()),
        _other_way("lr alone", "The learning rate is right, the other options are the inner optimizer's defaults: hand all "
                               "of **options on to optimizer_class.", options=("lr",)),
        _other_way("gaps closed", "A parameter without a gradient has no place in the buffer, so that those behind it get "
                                  "each other's elements: leave zeros in its place.", closed_up=True),
    ),
)
