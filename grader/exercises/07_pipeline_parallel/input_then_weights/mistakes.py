"""Wrong halves of a backward."""

import torch

from grader.exercises.references import change, mistake

DX, ADD = "dx = found[-1] if x.requires_grad else None", "p.grad = gradient if p.grad is None else p.grad + gradient"

CHANGES = (
    change("x without gradient", "[x] * x.requires_grad", "[x]"),
    change("graph freed", "sources, dy, retain_graph=True", "sources, dy"),
    change("not added", ADD, "p.grad = gradient"),
    change("doubled", ADD, "p.grad = 2 * gradient if p.grad is None else p.grad + 2 * gradient"),
    change("wrong dx", DX, "dx = found[-1] * 2 if x.requires_grad else None"),
    change("gradients of other layers", "zip(layers, found)", "zip(layers, found[:len(layers)][::-1])"),
    change("parameters left out", "z, parameters, dz", "z, parameters[:1], dz"),
    change("weight not used", "z, parameters, dz, retain_graph=True, allow_unused=True",
           "z, parameters, dz, retain_graph=True"),
    change("zeros for none", "if gradient is not None:",
           "if gradient is None: gradient = torch.zeros_like(p)\n                if True:"),
    change("gradients in one memory", ADD, "p.grad = gradient if p.grad is None else p.grad.add_(gradient)"),
    change("gradients of other layers", "z, parameters, dz", "z, parameters, torch.ones_like(dz)"),
    change("taken for a chain", "found = torch.autograd.grad(y, sources, dy, retain_graph=True, allow_unused=True)",
           "found, later, d_later = [], y, dy\n    for source in ([x] * x.requires_grad + outputs)[::-1]:\n"
           "        (d_later,) = torch.autograd.grad(later, source, d_later, retain_graph=True)\n"
           "        found, later = [d_later, *found], source\n"
           "    found = found[x.requires_grad:] + found[:x.requires_grad]"),
)


def _adding(parameters, gradients):
    """weights() for gradients, or for a function that finds them."""
    def weights():
        for p, gradient in zip(parameters, gradients() if callable(gradients) else gradients, strict=True):
            if gradient is not None:
                p.grad = gradient if p.grad is None else p.grad + gradient

    return weights


def _parameters(layers):
    return [p for _, own in layers for p in own]


@mistake("weights early")
def all_at_once_set_later(x, y, dy, layers):
    parameters = _parameters(layers)
    found = torch.autograd.grad(y, parameters + [x] * x.requires_grad, dy, allow_unused=True)
    return found[-1] if x.requires_grad else None, _adding(parameters, found[:len(parameters)])


@mistake("computed twice")
def back_again(x, y, dy, layers):
    dx = torch.autograd.grad(y, x, dy, retain_graph=True)[0] if x.requires_grad else None
    parameters = _parameters(layers)
    return dx, _adding(parameters, lambda: torch.autograd.grad(y, parameters, dy, allow_unused=True))


@mistake("x's gradient set")
def backward_to_x(x, y, dy, layers):
    dzs = torch.autograd.grad(y, [z for z, _ in layers], dy, retain_graph=True)
    if x.requires_grad:
        layers[0][0].backward(dzs[0], inputs=[x], retain_graph=True)

    def weights():
        for (z, parameters), dz in zip(layers, dzs, strict=True):
            trained = [p for p in parameters if p.requires_grad]
            _adding(trained, torch.autograd.grad(z, trained, dz, retain_graph=True, allow_unused=True))()

    return x.grad, weights


@mistake("gradients set early")
def whole_backward(x, y, dy, layers):
    y.backward(dy)
    return x.grad, lambda: None


@mistake("paths counted twice")
def all_layers_at_once(x, y, dy, layers):
    outputs, parameters = [z for z, _ in layers], _parameters(layers)
    found = torch.autograd.grad(y, outputs + [x] * x.requires_grad, dy, retain_graph=True)
    dzs = found[:len(outputs)]
    return found[-1] if x.requires_grad else None, _adding(
        parameters, lambda: torch.autograd.grad(outputs, parameters, dzs, retain_graph=True, allow_unused=True))


UNUSED = "A layer that the output does not use is left open: stages here use all of theirs."
EQUIVALENT = {
    'z, parameters, dz, retain_graph=True, allow_unused=True) | True → False':
        "Each layer's graph from its inputs to z is used once more only, and parts of no other.",
    "found = torch.autograd.grad(y, sources, dy, retain_graph=True, allow_unused=True) | True → False, again": UNUSED,
    "gradients = [None] * len(parameters) if dz is None else torch.autograd.grad( | [None] * len(parameters) → [None] / "
    "len(parameters)": UNUSED,
}
