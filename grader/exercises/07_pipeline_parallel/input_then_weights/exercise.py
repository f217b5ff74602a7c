"""Half a backward, and the other half: the gradient of the input at once, those of the weights later."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise

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


def _backward(case: Case, micro: int) -> tuple[Tensor | None, Gradients]:
    """dx and the gradients of one micro-batch."""
    x, dy = case.inputs[0]["xs"][micro].clone(), case.inputs[0]["dys"][micro]
    x.requires_grad_(case.inputs[0]["x_needs_gradient"])
    named = _named(case)
    zs = _forward(named, x)
    sources = {name: tensor for name, tensor in {**named, "x": x}.items() if tensor.requires_grad}
    y = zs[-1] + zs[0] if case.inputs[0]["residual"] else zs[-1]
    y = y.sum() if dy is None else y
    gradients = dict(zip(sources, torch.autograd.grad(y, [*sources.values()], dy, allow_unused=True), strict=True))
    dx = gradients.pop("x", None)
    return dx, dict.fromkeys(named) | gradients


def _added(some: Gradients, more: Gradients) -> Gradients:
    return {name: None if gradient is None else gradient + more[name] for name, gradient in some.items()}


def _expected(case: Case) -> list[dict[str, Any]]:
    """gradients: what is in .grad after each micro-batch."""
    every = [_backward(case, micro) for micro in range(len(case.inputs[0]["xs"]))]
    sums = list(itertools.accumulate((gradients for _, gradients in every), _added))
    return [{"dx": [dx for dx, _ in every], "early": [], "gradients": sums}]


EXERCISE = Exercise(
    title="Half a backward, and the other half",
    parameters=("x", "y", "dy", "layers"),
    make_cases=_cases,
    trains=True,
    forbidden=("torch.distributed.pipelining",),
    oracle=_expected,
    tolerance=TOLERANCE,
)
