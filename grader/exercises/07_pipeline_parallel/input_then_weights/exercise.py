"""Half a backward, and the other half: the gradient of the input at once, those of the weights later."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise, Slip

KINDS = "weight", "bias", "added", "unused"  # a layer's tensors, in this order
Gradients = dict[str, Tensor | None]  # of each weight and bias, by name; None for a frozen one


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def number(*shape: int) -> Tensor:
        return draw.tensor(*shape, dtype=torch.float64) / 60

    def case(name: str, sizes: Sequence[int], n: int, loss: bool = False, tokens: bool = False, frozen=(),
             more: bool = False, residual: bool = False) -> Case:
        """more: each layer has a weight that is only added, as its bias is, and one that is not used.

        residual: what comes out of the first layer is added to what comes out of the last.
        """
        weights = [[number(a, b), number(b)] for a, b in itertools.pairwise(sizes)]
        if more:
            weights = [[number(a, b), number(3, b), number(3, b), number(2)] for a, b in itertools.pairwise(sizes)]
        xs = [number(3, sizes[0]) for _ in range(n)]
        dys = [None if loss else number(3, sizes[-1]) for _ in range(n)]
        return Case(name, ({"weights": weights, "xs": xs, "dys": dys, "x_needs_gradient": not tokens,
                            "frozen": list(frozen), "residual": residual},))

    cases = [case("1 layer, 1 micro-batch", (3, 5), 1), case("3 layers, 2 micro-batches", (3, 5, 4, 2), 2),
             case("the first stage: x without gradient", (5, 3, 2), 2, tokens=True),
             case("the last stage: a loss, no dy", (2, 5, 3), 2, loss=True),
             case("a weight and a bias frozen", (4, 3, 5), 2, frozen=("0.1.weight", "1.1.bias")),
             case("weights that are only added, and unused ones", (4, 2, 3), 2, more=True),
             case("a connection past two layers", (3, 4, 2, 4), 2, residual=True)]
    if grading:
        cases.append(case("5 layers, 3 micro-batches", (3, 2, 6, 2, 4, 3), 3))
    return cases


# ── one backward in one piece for each micro-batch ──


def _named(case: Case) -> dict[str, Tensor]:
    """The stage's weights and biases, layer by layer, and what else a layer has."""
    inputs = case.inputs[0]
    named = {f"{layer}.1.{kind}": tensor.clone() for layer, own in enumerate(inputs["weights"])
             for kind, tensor in zip(KINDS, own, strict=False)}
    return {name: tensor.requires_grad_(name not in inputs["frozen"]) for name, tensor in named.items()}


def _forward(named: dict[str, Tensor], x: Tensor) -> list[Tensor]:
    """What comes out of each layer."""
    zs: list[Tensor] = []
    while (layer := f"{len(zs)}.1") + ".weight" in named:
        z = torch.tanh(zs[-1] if zs else x) @ named[f"{layer}.weight"] + named[f"{layer}.bias"]
        zs.append(z + named.get(f"{layer}.added", 0))
    return zs


def _backward(case: Case, micro: int, chained: bool = False, past: bool = True) -> tuple[Tensor | None, Gradients]:
    """dx and the gradients of one micro-batch.

    chained: all z are asked at once, so each one's gradient flows on into the layers below a second time. past: a connection
    past some layers counts too.
    """
    x, dy = case.inputs[0]["xs"][micro].clone(), case.inputs[0]["dys"][micro]
    x.requires_grad_(case.inputs[0]["x_needs_gradient"])
    named = _named(case)
    zs = _forward(named, x)
    sources = {name: tensor for name, tensor in {**named, "x": x}.items() if tensor.requires_grad}
    y = zs[-1] + zs[0] if past and case.inputs[0]["residual"] else zs[-1]
    y = y.sum() if dy is None else y
    gradients = dict(zip(sources, torch.autograd.grad(y, [*sources.values()], dy, retain_graph=True, allow_unused=True),
                         strict=True))
    dx = gradients.pop("x", None)
    if chained:
        dzs = torch.autograd.grad(y, zs, dy, retain_graph=True)
        trained = [named[name] for name in gradients]
        gradients = dict(zip(gradients, torch.autograd.grad(zs, trained, dzs, allow_unused=True), strict=True))
    return dx, dict.fromkeys(named) | gradients


def _added(some: Gradients, more: Gradients) -> Gradients:
    return {name: None if gradient is None else gradient + more[name] for name, gradient in some.items()}


def _sums(of_micro_batches: Iterable[Gradients]) -> list[Gradients]:
    """What is in .grad after each of them."""
    return list(itertools.accumulate(of_micro_batches, _added))


def _expected(case: Case, past: bool = True) -> list[dict[str, Any]]:
    every = [_backward(case, micro, past=past) for micro in range(len(case.inputs[0]["xs"]))]
    return [{"dx": [dx for dx, _ in every], "early": [], "gradients": _sums(gradients for _, gradients in every)}]


# ── slips ──


def _of_weights(id: str, hint: str, wrong: Callable[[Case, list[Gradients]], list[Gradients]]) -> Slip:
    """dx is right, the weights' gradients after each micro-batch are wrong(case, right)."""
    return Slip(id, hint, lambda case, rank, right: right[rank] | {"gradients": wrong(case, right[rank]["gradients"])})


def _of_each_call(case: Case, chained: bool = False) -> list[Gradients]:
    return [_backward(case, micro, chained)[1] for micro in range(len(case.inputs[0]["xs"]))]


EXERCISE = Exercise(
    title="Half a backward, and the other half",
    parameters=("x", "y", "dy", "layers"),
    make_cases=_cases,
    trains=True,
    forbidden=("torch.distributed.pipelining",),
    oracle=_expected,
    tolerance=TOLERANCE,
    slips=(
        _of_weights("paths counted twice", "Gradients are too large in all layers but the last: with all z asked at once "
                                           "each gradient also flows on into the layers below, where it is counted a second "
                                           "time. Ask layer by layer.",
                    lambda case, right: _sums(_of_each_call(case, chained=True))),
        Slip("taken for a chain", "What a layer puts out may go past the next one too (a residual connection): going from "
             "each z to the one before it loses that way. Ask for the gradients of all z from y, in one call.",
             lambda case, rank, right: _expected(case, past=False)[rank], shows=lambda case: case.inputs[0]["residual"]),
        _of_weights("not added", "weights() must add to .grad: what earlier micro-batches left is gone.",
                    lambda case, right: _of_each_call(case)),
        _of_weights("doubled", "The weights' gradients are twice too large.",
                    lambda case, right: [_added(gradients, gradients) for gradients in right]),
    ),
)
