"""Each kind of parallelism on more and more devices, by formula: how long devices wait for one another, beside computing.

One model, one batch for all: the more devices, the less each computes. Nothing is hidden here: where waiting takes longer
than computing, no overlap can hide it. Memory is not asked for; the planner's search does that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from utils.checking import require_count, require_kind, require_name
from utils.deadlocks.errors import BadType
from utils.planner.assumptions import NOTHING_HIDDEN, Assumptions
from utils.planner.conventions import ZERO_16, StateBytes
from utils.planner.layout import Layout
from utils.planner.plan import checked_cluster
from utils.planner.published import shape_of
from utils.planner.shape import ModelShape
from utils.planner.times import flow_time, step_bubble
from utils.planner.traffic import step_traffic
from utils.planner.work import compute_time, step_shares
from utils.simulation.cluster import Cluster

DEVICES = tuple(2 ** power for power in range(18))  # 1 to 131,072
AXES = ("dp", "tp", "pp", "cp", "ep")
# Name → the axis that grows, and what stays as it is.
STRATEGIES = {
    "DP": ("dp", Layout()), "ZeRO-3": ("dp", Layout(zero=3)), "TP": ("tp", Layout()),
    "TP with SP": ("tp", Layout(sequence_parallel=True)), "PP": ("pp", Layout()), "CP": ("cp", Layout()),
    "EP": ("ep", Layout()),
    "TP 8 × ZeRO-1": ("dp", Layout(tp=8, zero=1)), "TP 8 × ZeRO-3": ("dp", Layout(tp=8, zero=3)),
    "TP 8 × PP 16 × ZeRO-1": ("dp", Layout(tp=8, pp=16, zero=1)),
}


class Point(NamedTuple):
    """One strategy on so many devices: seconds of a step that a device computes, and that it waits."""

    strategy: str
    devices: int
    compute_s: float
    waiting_s: float

    @property
    def ratio(self) -> float:
        """Waiting over computing: above 1, the devices wait more than they work."""
        return self.waiting_s / self.compute_s


def scaling(shape: ModelShape | str, cluster: Cluster | str, global_batch: int, state: StateBytes = ZERO_16,
            assumptions: Assumptions = NOTHING_HIDDEN, devices: Sequence[int] = DEVICES,
            strategies: Mapping[str, tuple[str, Layout]] = STRATEGIES) -> list[Point]:
    """A point for each strategy and number of devices on which it can be: TP divides heads, no rank lacks sequence or layer.

    Where ep grows, dp does: as many ranks have whole sequences as share the experts; a model without experts has no point.
    The cluster may have fewer devices: only its links and devices count. A data-parallel rank takes its sequences in one
    micro-batch; with a pipeline, in micro-batches of one.
    """
    shape = shape_of(shape)
    cluster = checked_cluster(shape, cluster, state, assumptions)
    require_kind("strategies", strategies, Mapping)
    require_kind("devices", devices, Sequence)
    for count in devices:
        require_count("devices", count)
    require_count("global_batch", global_batch)
    points = []
    for name, strategy in strategies.items():
        axis, fixed = _checked_strategy(name, strategy)
        most = {"dp": global_batch, "tp": shape.heads, "pp": shape.layers, "cp": shape.sequence, "ep": shape.experts}[axis]
        for count in devices:
            degree = count // fixed.devices
            if degree * fixed.devices != count or not 1 <= degree <= most:
                continue
            layout = replace(fixed, **({"dp": fixed.dp * degree, "ep": degree} if axis == "ep" else {axis: degree}))
            if layout.dp <= global_batch and _divides(shape, layout):
                micro_batch = 1 if layout.pp > 1 else global_batch // layout.dp
                points.append(_point(name, replace(layout, micro_batch=micro_batch), shape, cluster, global_batch, state,
                                     assumptions))
    return points


def _divides(shape: ModelShape, layout: Layout) -> bool:
    """Whether heads, sequence, experts and what ZeRO shards can be split evenly."""
    pieces = layout.cp * (layout.tp if layout.sequence_parallel else 1)
    return not (shape.heads % layout.tp or shape.sequence % pieces or shape.experts % layout.ep
                or layout.dp * layout.cp % layout.shard_ranks)


def _checked_strategy(name: str, strategy: tuple[str, Layout]) -> tuple[str, Layout]:
    """Raises: TypeError, ValueError for what is no axis and a layout whose degree of it is 1."""
    if not (isinstance(strategy, tuple) and len(strategy) == 2 and isinstance(strategy[1], Layout)):
        raise BadType(f'strategy {name!r} must be an axis that grows and a Layout, such as ("dp", Layout(tp=8)); got '
                      f"{strategy!r}")
    require_name("axis that grows", strategy[0], AXES)
    return strategy


def _point(name: str, layout: Layout, shape: ModelShape, cluster: Cluster, global_batch: int, state: StateBytes,
           assumptions: Assumptions) -> Point:
    compute = float(compute_time(shape, layout, cluster, global_batch, assumptions))
    traffic = step_traffic(shape, layout, global_batch, state, cluster.devices_per_node, **assumptions.of_traffic)
    waiting = sum(float(flow_time(flow, cluster, assumptions)) for flow in traffic.flows)
    if layout.pp > 1:
        micro_batches = layout.micro_batches(global_batch)
        waiting += step_bubble(layout.schedule, layout.pp, layout.chunks, micro_batches, compute, compute,
                               step_shares(shape, layout, cluster, global_batch, assumptions))
    return Point(name, layout.devices, compute, waiting)


def bound_from(points: Sequence[Point], strategy: str) -> int | None:
    """The fewest of the devices asked for on which a strategy waits longer than it computes; None if on none of them.

    Raises: TypeError, ValueError for a strategy that has no point.
    """
    require_kind("points", points, Sequence)
    require_name("strategy", strategy, {point.strategy: None for point in points})
    return min((point.devices for point in points if point.strategy == strategy and point.ratio > 1), default=None)
