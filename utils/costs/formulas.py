"""What collectives cost: bytes by the ring formulas, seconds by the α–β model, nccl-tests' bus bandwidth.

n is the number of ranks in the group everywhere; M the bytes of the whole array that the collective works on:
the full vector for all-reduce, broadcast and reduce, all shards together for all-gather, reduce-scatter, gather, scatter
and all-to-all.
"""

import math

# How many times (n−1)/n of M a rank sends, on average over the group (bandwidth-optimal algorithms).
_SENT_PER_RANK = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1, "broadcast": 1, "reduce": 1,
                  "gather": 1, "scatter": 1}

# nccl-tests, PERFORMANCE.md: bus bandwidth = algorithm bandwidth × so many times (n−1)/n; None: they are equal.
_BUS_FACTOR = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1, "broadcast": None, "reduce": None}


def bytes_sent_per_rank(op: str, total_bytes: float, n_ranks: int) -> float:
    """Bytes that each of `n_ranks` sends on average for `op` over an array of `total_bytes`.

    Gather and scatter are uneven (the root sends or receives everything); this is their mean over the group.
    Raises: ValueError for an operation without a formula.
    Source: Thakur, Rabenseifner, Gropp 2005; nccl-tests PERFORMANCE.md.
    """
    return _look_up(_SENT_PER_RANK, op) * (n_ranks - 1) / n_ranks * total_bytes


def bus_factor(op: str, n_ranks: int) -> float:
    """Algorithm bandwidth × this = bus bandwidth, comparable with the speed of one link.

    Raises: ValueError for an operation without a factor.  Source: nccl-tests PERFORMANCE.md.
    """
    times = _look_up(_BUS_FACTOR, op)
    return 1.0 if times is None else times * (n_ranks - 1) / n_ranks


def ring_time_s(op: str, total_bytes: float, n_ranks: int, alpha_s: float, beta_s_per_byte: float) -> float:
    """Seconds of a ring all-reduce, all-gather or reduce-scatter in the α–β model.

    Every step costs α + (M/n)·β; all-reduce takes 2(n−1) steps, the other two n−1.
    Source: Thakur, Rabenseifner, Gropp 2005, section 4.
    """
    steps = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}[op] * (n_ranks - 1)
    return steps * (alpha_s + total_bytes / n_ranks * beta_s_per_byte)


def tree_broadcast_time_s(total_bytes: float, n_ranks: int, alpha_s: float, beta_s_per_byte: float) -> float:
    """Seconds of a binomial-tree broadcast: ⌈log₂ n⌉ rounds, each of the whole message."""
    return math.ceil(math.log2(n_ranks)) * (alpha_s + total_bytes * beta_s_per_byte)


def _look_up(table: dict, op: str):
    if op not in table:
        raise ValueError(f"no formula for {op!r}; known: {', '.join(sorted(table))}")
    return table[op]
