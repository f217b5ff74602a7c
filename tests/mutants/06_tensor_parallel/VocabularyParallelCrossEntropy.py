"""Wrong cross-entropies of split logits."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


def _sum(x, group, op=dist.ReduceOp.SUM):
    dist.all_reduce(x, op, group=group)
    return x


class _Right(torch.autograd.Function):
    """A right one, in pieces that the wrong ones replace."""

    @classmethod
    def own(cls, targets, first, size):
        return (targets >= first) & (targets < first + size)

    @classmethod
    def largest(cls, logits, group):
        return _sum(logits.amax(1), group, dist.ReduceOp.MAX)

    @classmethod
    def total(cls, exp, group):
        return _sum(exp.sum(1), group)

    @staticmethod
    def forward(ctx, logits, targets, group):
        return _Right.compute(ctx, _Right, logits, targets, group)

    @staticmethod
    def compute(ctx, cls, logits, targets, group):
        first, ctx.group = dist.get_rank(group) * logits.shape[1], group
        largest = cls.largest(logits, group)
        exp = (logits - largest[:, None]).exp()
        own = cls.own(targets, first, logits.shape[1])
        column = ((targets - first) * _Right.own(targets, first, logits.shape[1]))[:, None]
        target = _sum((logits.gather(1, column)[:, 0] - largest) * own, group)
        total = cls.total(exp, group)
        ctx.save_for_backward(exp / total[:, None], column, own, exp)
        return total.log() - target

    @staticmethod
    def backward(ctx, dloss):
        softmax, column, own, _ = ctx.saved_tensors
        hot = torch.zeros_like(softmax).scatter_(1, column, own[:, None].to(softmax.dtype))
        return (softmax - hot) * dloss[:, None], None, None


@mutant("overflow")
class WithoutMaximum(_Right):
    @classmethod
    def largest(cls, logits, group):
        return torch.zeros_like(logits[:, 0])

    @staticmethod
    def forward(ctx, logits, targets, group):
        return _Right.compute(ctx, WithoutMaximum, logits, targets, group)


@mutant("wrong losses")
class OwnMaximum(_Right):
    @classmethod
    def largest(cls, logits, group):
        return logits.amax(1)

    @staticmethod
    def forward(ctx, logits, targets, group):
        return _Right.compute(ctx, OwnMaximum, logits, targets, group)


@mutant("local softmax")
class OwnSum(_Right):
    @classmethod
    def total(cls, exp, group):
        return exp.sum(1)

    @staticmethod
    def forward(ctx, logits, targets, group):
        return _Right.compute(ctx, OwnSum, logits, targets, group)


@mutant("target looked up everywhere")
class LooksUpEverywhere(_Right):
    @staticmethod
    def forward(ctx, logits, targets, group):
        _Right.compute(ctx, _Right, logits, targets, group)
        first = dist.get_rank(group) * logits.shape[1]
        column = ((targets - first) % logits.shape[1])[:, None]
        largest = _sum(logits.amax(1), group, dist.ReduceOp.MAX)
        total = _sum((logits - largest[:, None]).exp().sum(1), group)
        return largest + total.log() - _sum(logits.gather(1, column)[:, 0].clone(), group)


@mutant("targets not shifted")
class NotShifted(_Right):
    @staticmethod
    def forward(ctx, logits, targets, group):
        loss = _Right.compute(ctx, _Right, logits, targets, group)
        return loss + 0 * logits.gather(1, targets[:, None])[:, 0]


@mutant("library call")
class GathersLogits(_Right):
    @staticmethod
    def forward(ctx, logits, targets, group):
        parts = [torch.empty_like(logits) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, logits, group=group)
        _Right.compute(ctx, _Right, logits, targets, group)
        return torch.nn.functional.cross_entropy(torch.cat(parts, 1), targets, reduction="none")


@mutant("far too many bytes")
class SumsWholeRows(_Right):
    @staticmethod
    def forward(ctx, logits, targets, group):
        n, r = dist.get_world_size(group), dist.get_rank(group)
        whole = torch.zeros(len(logits), n, logits.shape[1], dtype=logits.dtype)
        whole[:, r] = logits
        whole = _sum(whole, group).flatten(1)
        _Right.compute(ctx, _Right, logits, targets, group)
        return torch.nn.functional.cross_entropy(whole, targets, reduction="none")


@mutant("incoming gradient lost")
class ForgetsDloss(_Right):
    @staticmethod
    def backward(ctx, dloss):
        return _Right.backward(ctx, torch.ones_like(dloss))


@mutant("one-hot lost")
class ForgetsTheOneHot(_Right):
    @staticmethod
    def backward(ctx, dloss):
        return ctx.saved_tensors[0] * dloss[:, None], None, None


@mutant("one-hot everywhere")
class SubtractsEverywhere(_Right):
    @staticmethod
    def backward(ctx, dloss):
        softmax, column, _, _ = ctx.saved_tensors
        hot = torch.zeros_like(softmax).scatter_(1, column, 1.0)
        return (softmax - hot) * dloss[:, None], None, None


@mutant("local softmax in backward")
class OwnSoftmaxInBackward(_Right):
    @staticmethod
    def backward(ctx, dloss):
        softmax, column, own, _ = ctx.saved_tensors
        hot = torch.zeros_like(softmax).scatter_(1, column, own[:, None].to(softmax.dtype))
        return (softmax / softmax.sum(1, keepdim=True) - hot) * dloss[:, None], None, None


@mutant("sent in backward")
class SumsAgain(_Right):
    @staticmethod
    def backward(ctx, dloss):
        _, column, own, exp = ctx.saved_tensors
        softmax = exp / _sum(exp.sum(1), ctx.group)[:, None]
        hot = torch.zeros_like(softmax).scatter_(1, column, own[:, None].to(softmax.dtype))
        return (softmax - hot) * dloss[:, None], None, None


@mutant("input changed")
class InPlace(_Right):
    @staticmethod
    def forward(ctx, logits, targets, group):
        losses = _Right.compute(ctx, _Right, logits, targets, group)
        logits -= logits.amax(1, keepdim=True)
        return losses
