"""The messages that a library's collective is made of, round by round, by algorithm.

n ranks, M bytes of the whole array (see utils.costs.formulas). A round's messages go at the same time; the next round
begins when all have come. Repeated equal rounds are one round with `times`, whose messages carry the bytes of all. Rounds
of an all-to-all are `in_turn`: a rank goes on to its next message without waiting for the others.
Source: Thakur, Rabenseifner, Gropp 2005.
"""

import functools
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


@functools.cache
def torus_rings(shape: tuple[int, ...], joined: bool = True) -> Callable[..., list[Round]]:
    """All-reduce, reduce-scatter, all-gather on all dims of a torus at once, both ways round each.

    As many equal parts as the members span dims: each part is gathered along one dim after the other, each part beginning
    with another dim, so no two parts use one link at the same time. Along a ring a rank's block goes both ways, half round;
    along a row whose ends are not joined, from end to end.
    For groups that fill a box (in each dim every member or every k-th); else, and for other operations, the ring.
    joined: False where the ends of no row are.
    """

    def algorithm(op: str, total_bytes: float, members: Sequence[int], root: int = 0) -> list[Round]:
        box = _box(shape, joined, members) if op in _RING_STEPS else None
        if box is None:
            return ring(op, total_bytes, members, root)
        gather = _gathered_in_box(box, total_bytes / len(members))
        scatter = [Round([(b, a, size) for a, b, size in each.messages], each.times) for each in reversed(gather)]
        return {"all_gather": gather, "reduce_scatter": scatter, "all_reduce": scatter + gather}[op]

    return algorithm


class _Rows(NamedTuple):
    """All rows of a box along one dim, of ranks; joined: the last one is the first one's neighbour."""

    rows: list[list[int]]
    joined: bool

    @property
    def size(self) -> int:
        return len(self.rows[0])


def _box(shape: Sequence[int], joined: bool, members: Sequence[int]) -> list[_Rows] | None:
    """Its rows along each dim in which it has more than one member; None where the members fill no box."""
    weights = [math.prod(shape[dim + 1:]) for dim in range(len(shape))]
    along = [sorted({rank // weight % size for rank in members}) for weight, size in zip(weights, shape, strict=True)]
    steps = [{b - a for a, b in itertools.pairwise(at)} for at in along]
    if math.prod(map(len, along)) != len(members) or any(len(step) > 1 for step in steps):
        return None
    box = []
    for dim, size in enumerate(shape):
        if len(along[dim]) > 1:
            starts = [sum(at * weight for at, weight in zip(place, weights, strict=True))
                      for place in itertools.product(*along[:dim], [0], *along[dim + 1:])]
            rows = [[start + at * weights[dim] for at in along[dim]] for start in starts]
            box.append(_Rows(rows, joined and len(along[dim]) > 2 and len(along[dim]) * steps[dim].pop() == size))
    return box


def _gathered_in_box(box: list[_Rows], block_bytes: float) -> list[Round]:
    """All-gather of a block of each member: one round for each dim, in which each part goes along another."""
    rounds = []
    for turn in range(len(box)):
        messages, times = [], 0
        for first in range(len(box)):
            order = box[first:] + box[:first]
            part, along = block_bytes / len(box) * math.prod(each.size for each in order[:turn]), order[turn]
            messages += [(a, b, blocks * part) for row in along.rows for a, b, blocks in _gathered_along(row, along.joined)]
            times = max(times, ring_turns(along.size, along.joined))
        rounds.append(Round(messages, times))
    return rounds


def _gathered_along(row: list[int], joined: bool) -> list[tuple[int, int, float]]:
    """(from, to its neighbour, how many blocks go that way)"""
    last = len(row) - 1
    if joined:
        return [(x, y, last / 2) for a, b in _neighbours(row) for x, y in ((a, b), (b, a))]
    there = [(a, b, at + 1.0) for at, (a, b) in enumerate(itertools.pairwise(row))]
    return there + [(b, a, float(last - at)) for at, (a, b) in enumerate(itertools.pairwise(row))]


def ring_turns(size: int, joined: bool) -> int:
    """How many times blocks go on to a neighbour until all have all: half round a ring, or from end to end."""
    return size // 2 if joined else size - 1


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
