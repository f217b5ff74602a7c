"""Wrong linear layers with gathered outputs."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _gathered(part, group):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, part.contiguous(), group=group)
    return parts


def _own(dy_BO, group, rank=None):
    n = dist.get_world_size(group)
    return dy_BO.chunk(n, -1)[dist.get_rank(group) if rank is None else rank]


def _summed(x, group):
    x = x.clone()
    dist.all_reduce(x, group=group)
    return x


class _Right(torch.autograd.Function):
    """A right one."""

    @staticmethod
    def forward(ctx, x_BI, w_PI, group):
        ctx.save_for_backward(x_BI, w_PI)
        ctx.group = group
        return torch.cat(_gathered(x_BI @ w_PI.T, group), -1)

    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, w_PI = ctx.saved_tensors
        dy_BP = _own(dy_BO, ctx.group)
        return _summed(dy_BP @ w_PI, ctx.group), dy_BP.T @ x_BI, None


@mutant("gathered by rows")
class ByRows(_Right):
    @staticmethod
    def forward(ctx, x_BI, w_PI, group):
        parts = _Right.forward(ctx, x_BI, w_PI, group).chunk(dist.get_world_size(group), -1)
        return torch.cat(parts).view(len(x_BI), -1)


@mutant("interleaved")
class Stacked(_Right):
    @staticmethod
    def forward(ctx, x_BI, w_PI, group):
        parts = _Right.forward(ctx, x_BI, w_PI, group).chunk(dist.get_world_size(group), -1)
        return torch.stack(parts, -1).flatten(1)


@mutant("wrong order")
class OwnFirst(_Right):
    @staticmethod
    def forward(ctx, x_BI, w_PI, group):
        parts = _Right.forward(ctx, x_BI, w_PI, group).chunk(dist.get_world_size(group), -1)
        r = dist.get_rank(group)
        return torch.cat([*parts[r:], *parts[:r]], -1)


@mutant("own part")
class NotGathered(_Right):
    @staticmethod
    def forward(ctx, x_BI, w_PI, group):
        return _own(_Right.forward(ctx, x_BI, w_PI, group), group) * 1


NotGathered.backward = staticmethod(lambda ctx, dy_BP: (dy_BP @ ctx.saved_tensors[1], dy_BP.T @ ctx.saved_tensors[0], None))


@mutant("dx not summed")
class DxAlone(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        _, dw, _ = _Right.backward(ctx, dy_BO)
        return _own(dy_BO, ctx.group) @ ctx.saved_tensors[1], dw, None


@mutant("dx averaged")
class DxAveraged(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        dx, dw, _ = _Right.backward(ctx, dy_BO)
        return dx / dist.get_world_size(ctx.group), dw, None


@mutant("dy summed")
class DySummed(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        return _Right.backward(ctx, _summed(dy_BO, ctx.group))


@mutant("dW summed")
class DwSummed(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        dx, dw, _ = _Right.backward(ctx, dy_BO)
        return dx, _summed(dw, ctx.group), None


@mutant("first columns")
class FirstColumns(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        dx, _, _ = _Right.backward(ctx, dy_BO)
        return dx, _own(dy_BO, ctx.group, 0).T @ ctx.saved_tensors[0], None


@mutant("shapes")
class WholeDw(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        dx, _, _ = _Right.backward(ctx, dy_BO)
        return dx, dy_BO.T @ ctx.saved_tensors[0], None


@mutant("too few gradients")
class ReturnsTwo(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        return _Right.backward(ctx, dy_BO)[:2]


@mutant("weights gathered")
class GathersWeights(_Right):
    @staticmethod
    def forward(ctx, x_BI, w_PI, group):
        ctx.group = group
        w_OI = torch.cat(_gathered(w_PI.detach(), group))
        ctx.save_for_backward(x_BI, w_OI)
        return x_BI @ w_OI.T

    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, w_OI = ctx.saved_tensors
        return dy_BO @ w_OI, _own(dy_BO, ctx.group).T @ x_BI, None


@mutant("library call")
class Broadcasts(_Right):
    @staticmethod
    def forward(ctx, x_BI, w_PI, group):
        ctx.save_for_backward(x_BI, w_PI)
        ctx.group, n, r = group, dist.get_world_size(group), dist.get_rank(group)
        parts = [x_BI @ w_PI.T if k == r else x_BI.new_empty(len(x_BI), len(w_PI)) for k in range(n)]
        for k, part in enumerate(parts):
            dist.broadcast(part, group=group, group_src=k)
        return torch.cat(parts, -1)


@mutant("backward calls")
class ReducesTwice(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        _summed(dy_BO[:1, :1], ctx.group)
        return _Right.backward(ctx, dy_BO)


@mutant("group ignored")
class WholeWorld(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, w_PI = ctx.saved_tensors
        dy_BP = _own(dy_BO, ctx.group)
        return _summed(dy_BP @ w_PI, None), dy_BP.T @ x_BI, None


@mutant("missing wait")
class DoesNotWait(_Right):
    @staticmethod
    def backward(ctx, dy_BO):
        x_BI, w_PI = ctx.saved_tensors
        dy_BP = _own(dy_BO, ctx.group)
        dx_BI = dy_BP @ w_PI
        ctx.work = dist.all_reduce(dx_BI, group=ctx.group, async_op=True)
        return dx_BI, dy_BP.T @ x_BI, None
