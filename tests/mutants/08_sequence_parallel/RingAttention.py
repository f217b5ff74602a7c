"""Wrong ring attentions."""

import torch
import torch.distributed as dist

from tests.mutants import mutant
from utils.models.attention import attend, attend_backward


def _merge(o1, lse1, o2, lse2):
    lse = torch.logaddexp(lse1, lse2)
    safe = lse.masked_fill(lse == float("-inf"), 0.0)
    return o1 * torch.exp(lse1 - safe)[..., None] + o2 * torch.exp(lse2 - safe)[..., None], lse


class _Right(torch.autograd.Function):
    """A right one, in pieces that wrong ones replace."""

    HOPS_LEFT = 0  # of the gradients' n hops, how many are left out
    TO = 1

    @classmethod
    def seen(cls, rank, source, half):
        early, late, every = ((slice(None), slice(None), s) for s in (slice(half), slice(half, None), slice(None)))
        return late if source > rank else every, early if source < rank else every, source == rank

    @classmethod
    def pass_on(cls, x, group):
        rank, n = dist.get_rank(group), dist.get_world_size(group)
        if n == 1:
            return x
        received = torch.empty_like(x)
        sending = dist.isend(x, group=group, group_dst=(rank + cls.TO) % n)
        dist.recv(received, group=group, group_src=(rank - cls.TO) % n)
        sending.wait()
        return received

    @classmethod
    def pass_kv(cls, kv, own, group):
        return cls.pass_on(kv, group)

    @classmethod
    def run(cls, ctx, q, k, v, group):
        if q.shape[2] % 2:
            raise ValueError(f"an odd number of rows: {q.shape[2]}")
        own = kv = torch.stack((k, v))
        o, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], float("-inf"))
        n, rank = dist.get_world_size(group), dist.get_rank(group)
        for step in range(n):
            rows, keys, causal = cls.seen(rank, (rank - step) % n, q.shape[2] // 2)
            if rows is not None:
                o[rows], lse[rows] = _merge(o[rows], lse[rows], *attend(q[rows], kv[0][keys], kv[1][keys], causal))
            if step < n - 1:
                kv = cls.pass_kv(kv, own, group)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.group = group
        return o

    @classmethod
    def run_back(cls, ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        own = kv = torch.stack((k, v))
        dq, dkv = torch.zeros_like(q), torch.zeros_like(kv)
        n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        for step in range(n):
            rows, keys, causal = cls.seen(rank, (rank - step) % n, q.shape[2] // 2)
            if rows is not None:
                parts = attend_backward(do[rows], q[rows], kv[0][keys], kv[1][keys], o[rows], lse[rows], causal)
                dq[rows] += parts[0]
                dkv[0][keys] += parts[1]
                dkv[1][keys] += parts[2]
            if step < n - cls.HOPS_LEFT:
                dkv = cls.pass_on(dkv, ctx.group)
            if step < n - 1:
                kv = cls.pass_kv(kv, own, ctx.group)
        return dq, dkv[0], dkv[1], None

    @staticmethod
    def forward(ctx, q, k, v, group):
        return _Right.run(ctx, q, k, v, group)

    @staticmethod
    def backward(ctx, do):
        return _Right.run_back(ctx, do)


@mutant("mask by local index")
class LocalMask(_Right):
    @classmethod
    def seen(cls, rank, source, half):
        every = (slice(None), slice(None), slice(None))
        return every, every, True

    @staticmethod
    def forward(ctx, q, k, v, group):
        return LocalMask.run(ctx, q, k, v, group)

    @staticmethod
    def backward(ctx, do):
        return LocalMask.run_back(ctx, do)


@mutant("no mask")
class SeesEverything(_Right):
    @classmethod
    def seen(cls, rank, source, half):
        every = (slice(None), slice(None), slice(None))
        return every, every, False

    @staticmethod
    def forward(ctx, q, k, v, group):
        return SeesEverything.run(ctx, q, k, v, group)

    @staticmethod
    def backward(ctx, do):
        return SeesEverything.run_back(ctx, do)


@mutant("shards in one piece")
class InOnePiece(_Right):
    @classmethod
    def seen(cls, rank, source, half):
        every = (slice(None), slice(None), slice(None))
        return every if source <= rank else None, every, source == rank

    @staticmethod
    def forward(ctx, q, k, v, group):
        return InOnePiece.run(ctx, q, k, v, group)

    @staticmethod
    def backward(ctx, do):
        return InOnePiece.run_back(ctx, do)


@mutant("wrong way round")
class Backwards(_Right):
    TO = -1

    @staticmethod
    def forward(ctx, q, k, v, group):
        return Backwards.run(ctx, q, k, v, group)

    @staticmethod
    def backward(ctx, do):
        return Backwards.run_back(ctx, do)


@mutant("values not sent")
class KeysOnly(_Right):
    @classmethod
    def pass_kv(cls, kv, own, group):
        return torch.stack((cls.pass_on(kv[0].clone(), group), own[1]))

    @staticmethod
    def forward(ctx, q, k, v, group):
        return KeysOnly.run(ctx, q, k, v, group)

    @staticmethod
    def backward(ctx, do):
        return KeysOnly.run_back(ctx, do)


@mutant("gradients left on the way")
class OneHopShort(_Right):
    HOPS_LEFT = 1

    @staticmethod
    def backward(ctx, do):
        return OneHopShort.run_back(ctx, do)


@mutant("own queries only")
class GradientsStayHome(_Right):
    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        own = kv = torch.stack((k, v))
        dq, dkv = torch.zeros_like(q), torch.zeros_like(kv)
        n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        for step in range(n):
            rows, keys, causal = _Right.seen(rank, (rank - step) % n, q.shape[2] // 2)
            parts = attend_backward(do[rows], q[rows], kv[0][keys], kv[1][keys], o[rows], lse[rows], causal)
            dq[rows] += parts[0]
            if kv is own:
                dkv[0][keys] += parts[1]
                dkv[1][keys] += parts[2]
            if step < n - 1:
                kv = _Right.pass_on(kv, ctx.group)
        return dq, dkv[0], dkv[1], None


@mutant("own part only")
class NeverMerges(_Right):
    @classmethod
    def seen(cls, rank, source, half):
        every = (slice(None), slice(None), slice(None))
        return every if source == rank else None, every, True

    @staticmethod
    def forward(ctx, q, k, v, group):
        return NeverMerges.run(ctx, q, k, v, group)

    @staticmethod
    def backward(ctx, do):
        return NeverMerges.run_back(ctx, do)


@mutant("hidden blocks computed")
class MasksInstead(_Right):
    @staticmethod
    def forward(ctx, q, k, v, group):
        for _ in range(dist.get_world_size(group)):
            attend(q, k, v, False)
        return _Right.run(ctx, q, k, v, group)


@mutant("others' keys kept")
class KeepsAll(_Right):
    @staticmethod
    def forward(ctx, q, k, v, group):
        o = _Right.run(ctx, q, k, v, group)
        n = dist.get_world_size(group)
        ctx.kept = [torch.stack((k, v)) for _ in range(n)]
        return o


@mutant("whole gather")
class Gathers(_Right):
    @staticmethod
    def forward(ctx, q, k, v, group):
        whole = k.new_empty(dist.get_world_size(group) * len(k), *k.shape[1:])
        dist.all_gather_single(whole, k.contiguous(), group=group)
        return _Right.run(ctx, q, k, v, group)


@mutant("not refused")
class TakesOddRows(_Right):
    @staticmethod
    def forward(ctx, q, k, v, group):
        even = q.shape[2] - q.shape[2] % 2
        return _Right.run(ctx, q[:, :, :even], k[:, :, :even], v[:, :, :even], group)


@mutant("wrong dq")
class LsePartByPart(_Right):
    @staticmethod
    def backward(ctx, do):
        dq, dk, dv, _ = _Right.run_back(ctx, do)
        return dq * ctx.saved_tensors[0].shape[-1] ** 0.5, dk, dv, None


@mutant("too many bytes")
class SendsTwice(_Right):
    @staticmethod
    def forward(ctx, q, k, v, group):
        kv = torch.stack((k, v))
        if dist.get_world_size(group) > 1:
            _Right.pass_on(_Right.pass_on(kv, group), group)
        return _Right.run(ctx, q, k, v, group)
