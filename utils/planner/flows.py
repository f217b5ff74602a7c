"""What travels in a step: flows of equal messages, the groups they go round in, and how much of it leaves a node.

Letters: n ranks of a group, k of them in one node, M bytes of the whole array of one collective; of one message, for sends;
of what a device holds, for all-to-all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from utils.checking import require_count, require_name
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.explained import Explained, explain, total
from utils.planner.layout import Layout

AXES = ("TP", "CP", "EP", "PP", "DP")
ORDER = ("tp", "cp", "dp", "pp")  # innermost first: neighbours in a node are tensor-parallel partners
# Inside dp·cp: experts' ranks and those with the same experts; ranks that share a copy of the state, those with one shard.
SPANNED = ("tp", "cp", "dp", "pp", "ep", "expert_dp", "expert_shard", "shard", "replica")
# Mean bytes a rank sends in one call, and the share of them that leaves the node, k neighbours of the group being in one.
SENT = {"all_reduce": ("2*(n - 1)/n*M", "1/k"), "all_gather": ("(n - 1)/n*M", "1/k"),
        "reduce_scatter": ("(n - 1)/n*M", "1/k"), "ring hops": ("(n - 1)*M", "1/k"), "send": ("M", "(n/k - 1)/(n - 1)"),
        "send around": ("M", "1/k"), "all_to_all": ("(n - 1)/n*M", "(n - k)/(n - 1)")}


class Group(NamedTuple):
    """`members` ranks of which `per_node` sit in the same node; from one to the next it is `stride` ranks."""

    members: int
    per_node: int
    stride: int = 1

    @property
    def crosses(self) -> bool:
        """Whether it has members in several nodes."""
        return self.per_node < self.members


@dataclass(frozen=True)
class Flow:
    """One kind of message of a step. calls: how often in a step, on a mean device. payload: M, bytes.

    beside: the work behind which it can hide: "weights' gradients", "a micro-batch" (its backward pass), "a forward pass",
    "all compute", or "" for nothing.
    in_turn: how many of them a device can have to wait for, one after the other, if that is not `calls`.
    largest: M on the device that has most, for which the others wait, if that is not `payload`.
    copies: of an all-to-all that goes once to each node, and on from there: which part of M leaves for a node.
    """

    axis: str
    what: str
    op: str
    group: Group
    calls: Explained
    payload: Explained
    beside: str = ""
    source: str = ""
    in_turn: Explained | None = None
    largest: Explained | None = None
    copies: Explained | None = None

    @cached_property
    def sent(self) -> Explained:
        """Bytes each device sends in a step."""
        return explain(self.what, "bytes", f"calls*{_in_brackets(SENT[self.op][0])}", self.source,
                       calls=self.calls, n=self.group.members, M=self.payload)

    @cached_property
    def between(self) -> Explained:
        """Those of them that leave the node."""
        share = f"sent*{_in_brackets(SENT[self.op][1])}" if self.group.crosses else "0*sent"
        if self.group.crosses and self.copies is not None:
            share = "calls*M*copies*(1 - k/n)"
        return explain(self.what, "bytes", share, sent=self.sent, n=self.group.members, k=self.group.per_node,
                       copies=self.copies, calls=self.calls, M=self.payload)

    @cached_property
    def inside(self) -> Explained:
        """Those of them that stay in it."""
        return explain(self.what, "bytes", "sent - between", sent=self.sent, between=self.between)


@dataclass(frozen=True)
class Traffic:
    """All flows of a step. sent, inside, between: bytes of a mean device, with their parts."""

    flows: tuple[Flow, ...]

    @property
    def sent(self) -> Explained:
        """Bytes each device sends."""
        return self._by_axis("sent in a step", "sent")

    @property
    def inside(self) -> Explained:
        """Bytes that stay inside the node."""
        return self._by_axis("inside the node", "inside")

    @property
    def between(self) -> Explained:
        """Bytes that go to other nodes."""
        return self._by_axis("between nodes", "between")

    def _by_axis(self, name: str, which: str) -> Explained:
        axes = dict.fromkeys(flow.axis for flow in self.flows)
        return total(name, "bytes", [total(axis, "bytes", [getattr(flow, which) for flow in self.flows if flow.axis == axis])
                                     for axis in axes])

    def of(self, axis: str) -> float:
        """Bytes that each device sends for one axis: "TP", "CP", "EP", "PP", "DP".  Raises: ValueError for another."""
        require_name("axis", axis, AXES)
        return sum(float(flow.sent) for flow in self.flows if flow.axis == axis)


def group_of(axes: Sequence[str], layout: Layout, devices_per_node: int, order: Sequence[str] = ORDER) -> Group:
    """The group that spans `axes`, and how much of it a node holds.

    axes: "tp", "cp", "dp", "pp"; instead of cp and dp together, innermost first, "ep" and "expert_dp" (which is
    "expert_shard" and "replica"), or "shard" and "replica". Where sizes do not divide the node, rounded down.
    Raises: ValueError for an order that does not name each axis once.
    """
    require_order(order)
    require_count("devices_per_node", devices_per_node)
    for axis in axes:
        if axis not in SPANNED:
            require_name("axis", axis, SPANNED)
    stride, members, per_node, between = 1, 1, 1, 1
    if "expert_dp" in axes:
        axes = [*axes, "expert_shard", "replica"]
    for axis, size in _sizes(layout, order, axes):
        if axis in axes:
            between = stride if members == 1 else between
            members, per_node = members * size, per_node * min(size, max(devices_per_node // stride, 1))
        stride *= size
    return Group(members, per_node, between)


def require_order(order: Sequence[str]) -> None:
    """Raises: TypeError, ValueError for what does not name each axis once."""
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise BadType(f"order names the axes, innermost first, such as {ORDER}; got {order!r}")
    if sorted(order) != sorted(ORDER):
        raise BadValue(f"order must name {', '.join(ORDER)} once each, innermost first; got {', '.join(map(str, order))}")


def _sizes(layout: Layout, order: Sequence[str], axes: Sequence[str]) -> list[tuple[str, int]]:
    """(axis, size) from the innermost; for groups of experts or shards dp and cp are one block."""
    sizes = [(axis, getattr(layout, axis)) for axis in order]
    if all(axis in order for axis in axes):
        return sizes
    if layout.expert_spread > 1 and any(axis in axes for axis in ("ep", "expert_shard")):
        block = layout.dp * layout.cp
        shard = layout.shard or block
        return [("of an expert", layout.expert_tp), ("ep", layout.ep), ("expert_shard", layout.expert_ranks(shard)),
                ("replica", block // shard), ("pp", layout.pp)]
    block, first = layout.dp * layout.cp, min(order.index("cp"), order.index("dp"))
    shard = layout.shard or block
    rest = [(axis, size) for axis, size in sizes[first:] if axis not in ("cp", "dp")]
    inner = [("shard", shard)] if "shard" in axes else [("ep", layout.ep), ("expert_shard", shard // layout.ep)]
    return [*sizes[:first], *inner, ("replica", block // shard), *rest]


def _in_brackets(expression: str) -> str:
    return expression if expression.replace("*", "").isalnum() else f"({expression})"
