"""One pass of attention round a ring of ranks, in which one chooses when a hop starts."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from utils.models.attention import attend
from utils.trace.spans import span


def ring_pass(q_BHPK: Tensor, kv: Tensor, merge: Callable[..., tuple[Tensor, Tensor]], when: str) -> float:
    """Attention of a rank's queries to all ranks' keys, without a mask.  Returns the seconds that it waited for hops.

    kv: this rank's keys and values, stacked, (2, B, H, P, K).  merge(o1, lse1, o2, lse2) → (o, lse) over both sets of keys.
    when: a hop starts "before" its tile, and runs beside it, or "after" it.  A tile, all of the
    rank's queries × the keys that are here, is a span.
    """
    o_BHPK, lse_BHP, waited_s = torch.zeros_like(q_BHPK), q_BHPK.new_full(q_BHPK.shape[:-1], float("-inf")), 0.0
    for hops_left in reversed(range(dist.get_world_size())):
        received, hop = torch.empty_like(kv), []
        if when == "before" and hops_left:
            hop = _start_hop(kv, received)
        with span("tile"):
            o_BHPK, lse_BHP = merge(o_BHPK, lse_BHP, *attend(q_BHPK, *kv))
        if when == "after" and hops_left:
            hop = _start_hop(kv, received)
        start_s = time.perf_counter()
        for work in hop:
            work.wait()
        waited_s, kv = waited_s + time.perf_counter() - start_s, received
    return waited_s


def _start_hop(kv: Tensor, received: Tensor) -> list[dist.Work]:
    rank, n = dist.get_rank(), dist.get_world_size()
    return [dist.isend(kv, (rank + 1) % n), dist.irecv(received, (rank - 1) % n)]
