"""The messages that a library's collective is made of, round by round, by algorithm.

n ranks, M bytes of the whole array (see utils.costs.formulas). A round's messages go at the same time; the next round
begins when all have come. Repeated equal rounds are one round with `times`, whose messages carry the bytes of all. Rounds
of an all-to-all are `in_turn`: a rank goes on to its next message without waiting for the others.
Source: Thakur, Rabenseifner, Gropp 2005.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

Message = tuple[int, int, float]  # source, target (ranks of the world), bytes


class Round(NamedTuple):
    """Messages at the same time, `times` over; their bytes are those of all times together.

    in_turn: for each rank the next such round begins when its own messages are through.
    """

    messages: list[Message]
    times: int = 1
    in_turn: bool = False


_RING_STEPS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
_DOWN_AND_UP = {"broadcast": (False, True), "reduce": (True, False), "all_reduce": (True, True)}


def ring(op: str, total_bytes: float, members: Sequence[int], root: int = 0) -> list[Round]:
    """All-reduce, reduce-scatter, all-gather on a ring; broadcast and reduce as a pipeline along it; others directly."""
    n = len(members)
    if op in _RING_STEPS:
        steps = _RING_STEPS[op] * (n - 1)
        return [Round([(a, b, steps * total_bytes / n) for a, b in _neighbours(members)], steps)] if steps else []
    if op in ("broadcast", "reduce"):
        along = [members[(root + i) % n] for i in range(n)]
        edges = [(a, b) if op == "broadcast" else (b, a) for a, b in itertools.pairwise(along)]
        return [Round([(a, b, total_bytes) for a, b in edges], n - 1)] if edges else []
    return directly(op, total_bytes, members, root)


def tree(op: str, total_bytes: float, members: Sequence[int], root: int = 0) -> list[Round]:
    """Binomial trees for broadcast, reduce and all-reduce (down after up); other operations by the ring."""
    if op not in _DOWN_AND_UP:
        return ring(op, total_bytes, members, root)
    n = len(members)
    down = [Round([(members[(root + i) % n], members[(root + i + reach) % n], total_bytes)
                   for i in range(reach) if i + reach < n]) for reach in _powers_below(n)]
    up = [Round([(b, a, size) for a, b, size in round_.messages]) for round_ in reversed(down)]
    wants_up, wants_down = _DOWN_AND_UP[op]
    return up * wants_up + down * wants_down


def halving_doubling(op: str, total_bytes: float, members: Sequence[int], root: int = 0) -> list[Round]:
    """Recursive halving, then doubling, for all-reduce, reduce-scatter and all-gather of a power of two; else the ring."""
    n = len(members)
    if op not in _RING_STEPS or n & (n - 1):
        return ring(op, total_bytes, members, root)
    halving = [Round([(members[i], members[i ^ (n >> step)], total_bytes / (1 << step)) for i in range(n)])
               for step in range(1, n.bit_length())]
    return {"reduce_scatter": halving, "all_gather": halving[::-1], "all_reduce": halving + halving[::-1]}[op]


def hierarchical(per_node: int) -> Callable[..., list[Round]]:
    """All-reduce in three: reduce-scatter inside each node, all-reduce between equal places, all-gather inside.

    For groups of whole nodes with `per_node` consecutive members each; else the ring.
    """

    def algorithm(op: str, total_bytes: float, members: Sequence[int], root: int = 0) -> list[Round]:
        if op != "all_reduce" or len(members) <= per_node or len(members) % per_node:
            return ring(op, total_bytes, members, root)
        nodes = [members[i:i + per_node] for i in range(0, len(members), per_node)]
        inside = _together([ring("reduce_scatter", total_bytes, node) for node in nodes])
        between = _together([ring("all_reduce", total_bytes / per_node, rail) for rail in zip(*nodes, strict=True)])
        return inside + between + inside

    return algorithm


def ring_on_each_rail(devices_per_node: int) -> Callable[..., list[Round]]:
    """All-reduce, reduce-scatter, all-gather on as many rings as each node has members, for all ports of a node: each ring
    carries an equal part, and leaves a node by another device's port. NCCL makes its rings so.

    For groups with equally many members in each of several nodes; else, and for other operations, the ring.
    """

    def algorithm(op: str, total_bytes: float, members: Sequence[int], root: int = 0) -> list[Round]:
        if op not in _RING_STEPS:
            return ring(op, total_bytes, members, root)
        nodes: dict[int, list[int]] = {}
        for member in members:
            nodes.setdefault(member // devices_per_node, []).append(member)
        shares = {len(node) for node in nodes.values()}
        if len(nodes) == 1 or len(shares) > 1 or shares == {1}:
            return ring(op, total_bytes, members, root)
        per_node, = shares
        return _together([ring(op, total_bytes / per_node, _through_nodes([*nodes.values()], first))
                          for first in range(per_node)])

    return algorithm


def _through_nodes(nodes: list[list[int]], first: int) -> list[int]:
    """A way through all devices that goes from node to node between devices of one place, so along one rail."""
    way = []
    for at, node in enumerate(nodes):
        turned = node[first:] + node[:first]
        way += turned if at % 2 == 0 else turned[::-1]
    return way


def directly(op: str, total_bytes: float, members: Sequence[int], root: int = 0) -> list[Round]:
    """Gather, scatter: the root and each other rank. All-to-all: each and each, equal shares. Barrier: tiny messages."""
    n, at_root = len(members), members[root]
    others = [member for member in members if member != at_root]
    if op == "gather":
        return [Round([(other, at_root, total_bytes / n) for other in others])] if others else []
    if op == "scatter":
        return [Round([(at_root, other, total_bytes / n) for other in others])] if others else []
    if op == "all_to_all":
        return pairwise([[total_bytes / n] * n] * n, members)
    return [Round([(a, members[(i + reach) % n], 1.0) for i, a in enumerate(members)]) for reach in _powers_below(n)]


def pairwise(sizes: Sequence[Sequence[float]], members: Sequence[int]) -> list[Round]:
    """An all-to-all: each member sends each other its part, in n − 1 turns. sizes[i][j]: bytes from member i to member j."""
    n = len(members)
    turns = [[(i, (i + shift) % n) for i in range(n)] for shift in range(1, n)]
    return [Round([(members[i], members[j], sizes[i][j]) for i, j in turn if sizes[i][j]], in_turn=True) for turn in turns]


def _neighbours(members: Sequence[int]) -> list[tuple[int, int]]:
    return [(a, members[(i + 1) % len(members)]) for i, a in enumerate(members)]


def _powers_below(n: int) -> list[int]:
    return [1 << k for k in range(math.ceil(math.log2(n)))] if n > 1 else []


def _together(plans: list[list[Round]]) -> list[Round]:
    """The same round of several groups at the same time."""
    return [Round([m for part in parts for m in part.messages], parts[0].times) for parts in zip(*plans, strict=True)]
