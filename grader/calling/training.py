"""Inside a rank: the ways in which an exercise's function is given a model, and what of it is looked at afterwards."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from utils.trace.memory import bytes_behind, held_bytes, tensors_in
from utils.trace.spans import mark

REPLACED, STANDING = "parameter replaced", "gradients stand"
GRADIENT_REPLACED = "gradient replaced"
ACCEPTED, NOTHING, UNEQUAL = "accepted", "nothing to train", "ranks that differ"  # what is offered
WRAPPING, QUIET, NESTED = "wrapping", "accumulation", "accumulation after an inner no_sync()"
OPTIMIZERS = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}


def watch_gradients(model: nn.Module) -> None:
    """At each gradient that comes, a mark of its bytes, and of how many bytes of gradients still stand, wherever they are.

    Registered first, so that the newest is counted before anything can be done to it. A gradient stands as long as any
    part of it is kept, such as a slice.
    """
    standing: dict[int, tuple[weakref.ref, int]] = {}

    def note(parameter: nn.Parameter) -> None:
        storage = parameter.grad.untyped_storage()
        standing[storage.data_ptr()] = weakref.ref(storage), storage.nbytes()
        mark(STANDING, newest=parameter.grad.nbytes,
             bytes=sum(nbytes for kept, nbytes in standing.values() if kept() is not None))

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(note)


def held_before(inputs: dict[str, Any]) -> int:
    """Bytes held now, the batches included: they are counted once something touches them."""
    for tensor in (*inputs["xs"], *inputs["ys"]):
        tensor.detach()
    return held_bytes()


def held_beside(module: nn.Module) -> int:
    """Bytes held, but for its parameters and buffers and what lies in one memory with them."""
    return held_bytes() - bytes_behind((*module.parameters(), *module.buffers()))


def make_optimizer(inputs: dict[str, Any], trained) -> torch.optim.Optimizer:
    """The optimizer that a case names, with the learning rate (if any) and options that it names.

    inputs["matrices only"], if there and true: it holds no other parameters.
    """
    if inputs.get("matrices only"):
        trained = [p for p in trained if p.ndim > 1]
    return OPTIMIZERS[inputs["optimizer"]](trained, **options_of(inputs))


def param_groups(model: nn.Module, inputs: dict[str, Any]) -> Iterable:
    """The trained parameters, to be run through once, as parameters() gives them; where the case says so, as two groups, of
    which the second has another learning rate."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not inputs["two_groups"]:
        return iter(trained)
    return [{"params": [p for p in trained if p.dim() > 1]},
            {"params": [p for p in trained if p.dim() <= 1], "lr": 2 * inputs["lr"]}]


def options_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """What an optimizer is handed beside the parameters."""
    return {name: inputs[name] for name in ("lr",) if name in inputs} | inputs.get("options", {})


def accepted(offers: dict[str, Callable[[], Any]]) -> list[str]:
    """Of these constructors' calls, by name, those that raise no ValueError."""
    taken = []
    for what, make in offers.items():
        try:
            make()
        except ValueError:
            continue
        taken.append(what)
    return taken


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Of its state's tensors."""
    return sum(tensor.nbytes for state in optimizer.state.values() for tensor in tensors_in(state))


def leave_gradients(model: nn.Module, left: float | None) -> None:
    """As an earlier pass may have left them: `left` in each trained matrix, the same on all ranks; none elsewhere.

    A gradient that is there stays the same tensor.
    """
    for parameter in model.parameters():
        if left is None or not parameter.requires_grad or parameter.ndim < 2:
            parameter.grad = None
        elif parameter.grad is None:
            parameter.grad = torch.full_like(parameter, left)
        else:
            parameter.grad.fill_(left)


class Held(dict):
    """A result that keeps alive what it came from, until the memory that this takes has been counted."""

    def __init__(self, result: dict[str, Any], *alive: Any):
        super().__init__(result)
        self.alive = alive


def gradients(model: nn.Module) -> dict[str, Any]:
    """Name → gradient, None where there is none."""
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def not_held(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Name → gradient of each parameter that the optimizer does not hold, None where there is none."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    gone = {name for name, p in model.named_parameters() if id(p) in held}
    return {name: gradient for name, gradient in gradients(model).items() if name not in gone}


def numbers(model: nn.Module) -> dict[str, torch.Tensor]:
    """Name → parameter or buffer, also those that state_dict() leaves out."""
    return {**model.state_dict(), **dict(model.named_buffers())}


def parameters(model: nn.Module) -> dict[str, Any]:
    """Name → value."""
    return {name: p.detach() for name, p in model.named_parameters()}
