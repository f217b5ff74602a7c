"""Wrong recomputations."""

import torch

from tests.mutants import mutant


class _Right(torch.autograd.Function):
    """A right one; `again` computes the gradients of (x, *parameters)."""

    @staticmethod
    def forward(ctx, run, x, *parameters):
        ctx.run, ctx.state = run, torch.get_rng_state()
        ctx.save_for_backward(x, *parameters)
        return run(x)

    @staticmethod
    def backward(ctx, dy):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            return None, *_again(ctx, dy)


def _again(ctx, dy):
    x, *parameters = ctx.saved_tensors
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = ctx.run(x)
    wanted = [one for one in (x, *parameters) if one.requires_grad]
    found = dict(zip(map(id, wanted), torch.autograd.grad(y, wanted, dy), strict=True))
    return [found.get(id(one)) for one in (x, *parameters)]


@mutant("inside kept")
class KeepsTheGraph(_Right):
    @staticmethod
    def forward(ctx, run, x, *parameters):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y, ctx.parameters = run(ctx.x), parameters
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, dy):
        wanted = [one for one in (ctx.x, *ctx.parameters) if one.requires_grad]
        found = dict(zip(map(id, wanted), torch.autograd.grad(ctx.y, wanted, dy), strict=True))
        return None, *(found.get(id(one)) for one in (ctx.x, *ctx.parameters))


@mutant("run calls")
class RunsThreeTimes(_Right):
    @staticmethod
    def backward(ctx, dy):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            ctx.run(ctx.saved_tensors[0])
            torch.set_rng_state(ctx.state)
            return None, *_again(ctx, dy)


@mutant("other dropout")
class AnotherMask(_Right):
    @staticmethod
    def backward(ctx, dy):
        with torch.random.fork_rng(devices=[]):
            return None, *_again(ctx, dy)


@mutant("random state moved by backward")
class LeavesAnotherState(_Right):
    @staticmethod
    def backward(ctx, dy):
        torch.set_rng_state(ctx.state)
        return None, *_again(ctx, dy)


@mutant("random state rewound in forward")
class RewindsInForward(_Right):
    @staticmethod
    def forward(ctx, run, x, *parameters):
        y = _Right.forward(ctx, run, x, *parameters)
        torch.set_rng_state(ctx.state)
        return y


@mutant("parameter gradients lost")
class ForgetsTheParameters(_Right):
    @staticmethod
    def backward(ctx, dy):
        _, dx, *others = _Right.backward(ctx, dy)
        return None, dx, *(None for _ in others)


@mutant("input gradient lost")
class ForgetsTheInput(_Right):
    @staticmethod
    def backward(ctx, dy):
        _, _, *others = _Right.backward(ctx, dy)
        return None, None, *others


@mutant("parameter gradients twice")
class Both(_Right):
    @staticmethod
    def backward(ctx, dy):
        found = _Right.backward(ctx, dy)
        for parameter, gradient in zip(ctx.saved_tensors[1:], found[2:], strict=True):
            if gradient is not None:
                parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient
        return found


@mutant("gradient from above ignored")
class IgnoresWhatComes(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _Right.backward(ctx, torch.ones_like(dy))


@mutant("second run without graph")
class ForgetsToRecord(_Right):
    @staticmethod
    def backward(ctx, dy):
        x, *parameters = ctx.saved_tensors
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            y = ctx.run(x.detach().requires_grad_())
        return None, *torch.autograd.grad(y, (x, *parameters), dy)


@mutant("too few gradients")
class ReturnsTwo(_Right):
    @staticmethod
    def backward(ctx, dy):
        return _Right.backward(ctx, dy)[:2]
