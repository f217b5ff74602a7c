"""Inside a rank: the ways in which an exercise about one pipeline stage is called, and what is noted of its passes."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.calling.going_through import gone_through
from grader.evidence.case import REFUSED, Case
from utils.trace.spans import mark

PASS, IN_FLIGHT = "a pass of the stage", "micro-batches in flight"
SOMETHING = "not None"


class WatchedStage(nn.Module):
    """A stage that marks each pass: F when it is called, B when the gradient of its output comes; and what goes through.

    After each forward pass it marks how many micro-batches autograd still keeps activations of, and how many outputs anybody
    still holds. Micro-batches are numbered in the order of the calls. Whole numbers, as tokens are, count as fiftieths.
    """

    def __init__(self, layers: list[list[Tensor]]):
        super().__init__()
        self.layers = nn.Sequential(*(part for weight, bias in layers for part in (_linear(weight, bias), nn.Tanh())))
        self.dtype = layers[0][0].dtype
        self.kept: list[weakref.WeakSet] = []
        self.outputs: weakref.WeakSet = weakref.WeakSet()

    def forward(self, x_bD: Tensor) -> Tensor:
        micro = len(self.kept)
        mark(PASS, kind="F", micro=micro)
        self.kept.append(weakref.WeakSet())
        x_bD = as_floats(x_bD, self.dtype)
        y_bD = gone_through(lambda x_bD: self._kept_of(x_bD, micro), x_bD, micro)
        mark(IN_FLIGHT, count=sum(len(each) > 0 for each in self.kept), outputs=len(self.outputs))
        if y_bD.requires_grad:
            life = _Life()
            self.outputs.add(life)
            y_bD.register_hook(lambda _, life=life: mark(PASS, kind="B", micro=micro))
        return y_bD

    def _kept_of(self, x_bD: Tensor, micro: int) -> Tensor:
        """What the layers make of x; what autograd saves for it is counted."""
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: self._keep(tensor, micro), lambda kept: kept.tensor):
            return self.layers(x_bD)

    def _keep(self, tensor: Tensor, micro: int) -> "_Kept":
        kept = _Kept(tensor)
        self.kept[micro].add(kept)
        return kept


class _Life:
    """Lives as long as an output's graph."""


class _Kept:
    """Stands for one tensor that autograd saves, and lives as long as autograd keeps it."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor.detach()  # with its history, an output would keep itself alive


def only_for(reads: bool, micro_batches: Any) -> Any:
    """What the rank that reads it gets of lists of tensors; others get zeros, as many."""
    if isinstance(micro_batches, Tensor):
        return micro_batches if reads else torch.zeros_like(micro_batches)
    return [only_for(reads, part) for part in micro_batches]


def to_the_ends(case: Case) -> list[dict[str, Any]]:
    """Each rank's inputs, where of its steps [xs, ys] the first stage reads xs, and the last one ys."""
    handed = []
    for rank, inputs in enumerate(case.inputs):
        first, last = case.group_rank(rank) == 0, case.group_rank(rank) == case.group_size(rank) - 1
        handed.append(inputs | {"steps": [[only_for(first, xs), only_for(last, ys)] for xs, ys in inputs["steps"]]})
    return handed


def as_floats(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Whole numbers as fiftieths."""
    return x if x.is_floating_point() else x.to(dtype) / 50


def mean_loss(output_bD: Tensor, y_bD: Tensor) -> Tensor:
    """The mean of the squared distance, and of the output, by which the two arguments differ; a single number."""
    return ((output_bD - y_bD) ** 2 + output_bD).mean()


def call_splitting(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(*inputs) → its parts, or that it raised ValueError, and which of the sizes the error names."""
    sizes = [len(value) if isinstance(value, Tensor) else value for value in inputs.values()]
    try:
        parts = fn(*inputs.values())
    except ValueError as error:
        return {REFUSED: [size for size in sizes if str(size) in str(error)]}
    return {"parts": [part if isinstance(part, Tensor) else list(part) for part in parts]}


def call_pipeline_step(fn: Callable, inputs: dict[str, Any], group) -> dict[str, Any]:
    """fn(stage, x, y, loss_fn, n_micro, like, group) → gradients; the loss, and on the last stage whether it is detached."""
    stage = WatchedStage(inputs["layers"])
    loss = fn(stage, inputs["x"], inputs["y"], mean_loss, inputs["n_micro"], inputs["like"], group)
    gradients = [parameter.grad for parameter in stage.parameters()]
    if inputs["y"] is None:
        return {"gradients": gradients, "loss": None if loss is None else SOMETHING}
    detached = not getattr(loss, "requires_grad", False)
    return {"gradients": gradients, "loss": _number(loss, inputs["y"].dtype), "detached": detached}


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer


def _number(loss: Any, dtype: torch.dtype) -> Any:
    """A loss as a number or a tensor of one: as a tensor without dimensions."""
    return None if loss is None else torch.as_tensor(loss).detach().to(dtype).reshape(())
