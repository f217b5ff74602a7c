"""Wrong halves of a backward."""

import torch

from tests.mutants import mutant


def _add(p, gradient, factor=1.0):
    p.grad = gradient * factor if p.grad is None else p.grad + gradient * factor


def _halves(x, y, dy, layers, add=_add):
    found = torch.autograd.grad(y, [z for z, _ in layers] + [x] * x.requires_grad, dy, retain_graph=True)

    def weights():
        for (z, parameters), dz in zip(layers, found, strict=False):
            for p, gradient in zip(parameters, torch.autograd.grad(z, parameters, dz, retain_graph=True), strict=True):
                add(p, gradient)

    return found[-1] if x.requires_grad else None, weights


@mutant("weights early")
def all_at_once_set_later(x, y, dy, layers):
    parameters = [p for _, own in layers for p in own]
    found = torch.autograd.grad(y, parameters + [x] * x.requires_grad, dy)

    def weights():
        for p, gradient in zip(parameters, found, strict=False):
            _add(p, gradient)

    return found[-1] if x.requires_grad else None, weights


@mutant("computed twice")
def back_again(x, y, dy, layers):
    dx = torch.autograd.grad(y, x, dy, retain_graph=True)[0] if x.requires_grad else None
    parameters = [p for _, own in layers for p in own]

    def weights():
        for p, gradient in zip(parameters, torch.autograd.grad(y, parameters, dy), strict=True):
            _add(p, gradient)

    return dx, weights


@mutant("x without gradient")
def always_asks(x, y, dy, layers):
    dx = torch.autograd.grad(y, x, dy, retain_graph=True)[0]
    return dx, _halves(x, y, dy, layers)[1]


@mutant("graph freed")
def frees(x, y, dy, layers):
    found = torch.autograd.grad(y, [z for z, _ in layers] + [x] * x.requires_grad, dy)

    def weights():
        for (z, parameters), dz in zip(layers, found, strict=False):
            for p, gradient in zip(parameters, torch.autograd.grad(z, parameters, dz), strict=True):
                _add(p, gradient)

    return found[-1] if x.requires_grad else None, weights


@mutant("gradients set early")
def whole_backward(x, y, dy, layers):
    y.backward(dy)
    return x.grad, lambda: None


@mutant("paths counted twice")
def all_layers_at_once(x, y, dy, layers):
    outputs, parameters = [z for z, _ in layers], [p for _, own in layers for p in own]
    found = torch.autograd.grad(y, outputs + [x] * x.requires_grad, dy, retain_graph=True)

    def weights():
        dzs = found[:len(outputs)]
        for p, gradient in zip(parameters, torch.autograd.grad(outputs, parameters, dzs, retain_graph=True), strict=True):
            _add(p, gradient)

    return found[-1] if x.requires_grad else None, weights


@mutant("not added")
def sets(x, y, dy, layers):
    return _halves(x, y, dy, layers, add=lambda p, gradient: setattr(p, "grad", gradient))


@mutant("doubled")
def twice(x, y, dy, layers):
    return _halves(x, y, dy, layers, add=lambda p, gradient: _add(p, gradient, 2.0))


@mutant("wrong dx")
def of_the_first_output(x, y, dy, layers):
    dx, weights = _halves(x, y, dy, layers)
    return None if dx is None else dx * 2, weights
