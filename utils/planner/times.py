"""Seconds of a step: compute, what reads and writes memory, exposed communication, the pipeline's bubble, the optimizer.

Collectives cost α + β on a ring (utils.costs.formulas), all-to-all a message to each partner in turn. Left out: contention
between groups that share a link, tapered spines, stragglers, data loading, checkpoints: the simulation has the first two.
Letters as in traffic.py.
"""

import math
from collections.abc import Iterable, Sequence

from utils.checking import require_count, require_name, require_number, require_positive
from utils.deadlocks.errors import BadValue
from utils.planner.assumptions import ALL_HIDDEN, NOTHING_HIDDEN, Assumptions
from utils.planner.conventions import StateBytes
from utils.planner.explained import Explained, explain, given, total
from utils.planner.flows import Flow, Traffic
from utils.planner.layout import SCHEDULES, Layout
from utils.planner.shape import ModelShape
from utils.planner.work import (
    THIRDS,
    Shares,
    compute_time,
    elementwise_time,
    optimizer_time,
    pass_shares,
    step_shares,
)
from utils.simulation.cluster import Cluster, Link, Torus
from utils.simulation.collectives import ring_turns

__all__ = ["ALL_HIDDEN", "NOTHING_HIDDEN", "Assumptions", "bubble_time", "compute_time", "days_for_tokens",
           "elementwise_time", "exposed_times", "flow_time", "pass_shares", "step_bubble", "step_shares", "step_time"]

QI = "Qi et al. 2024 (2401.10241), table 1"
NARAYANAN = "Narayanan et al. 2021 (2104.04473), section 2.2"
BUBBLES = {"GPipe": ("(p - 1)*(F + I + W)", NARAYANAN), "1F1B": ("(p - 1)*(F + I + W)", NARAYANAN),
           "interleaved": ("(p - 1)*(F + I + W)/v", NARAYANAN), "ZB-H1": ("max((p - 1)*(F + I - W), few)", QI),
           "ZB-H2": ("max((p - 1)*(F + I - 2*W), few)", QI)}
# Until its first gradient comes back, the first device has only its m forward passes to do.
FEW = "max(p*F + (p - 1)*I - m*F, 0)"
RING_TIME = {"all_reduce": "2*(n - 1)*(alpha + M/n*beta)", "all_gather": "(n - 1)*(alpha + M/n*beta)",
             "reduce_scatter": "(n - 1)*(alpha + M/n*beta)", "ring hops": "(n - 1)*(alpha + M*beta)",
             "send": "alpha + M*beta", "send around": "alpha + M*beta"}
TORUS_TIME = {"all_reduce": "2*(hops*alpha + M*share*beta)", "all_gather": "hops*alpha + M*share*beta",
              "reduce_scatter": "hops*alpha + M*share*beta", "all_to_all": "hops*alpha + M*share*beta"}
RINGS = ("all_reduce", "all_gather", "reduce_scatter", "ring hops")
THAKUR = "Thakur, Rabenseifner, Gropp 2005"
JAIN = "Jain and Sabharwal 2010, bucket algorithms on a torus"


def step_time(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int, state: StateBytes, traffic: Traffic,
              assumptions: Assumptions = NOTHING_HIDDEN, host_bytes: float = 0) -> Explained:
    """Seconds of one step, with its parts: compute, elementwise, TP, CP, EP, offload, bubble, PP, DP, optimizer.

    Of uneven stages the slowest sets the pace. traffic: of the same layout, from step_traffic. host_bytes: what a device
    sends to its host beside the forward passes, and gets back beside the backward passes (memory.offloaded_bytes).
    """
    micro_batches = max(layout.micro_batches(global_batch), 1)
    compute = compute_time(shape, layout, cluster, global_batch, assumptions)
    elementwise = elementwise_time(shape, layout, cluster, global_batch, assumptions)
    shares = step_shares(shape, layout, cluster, global_batch, assumptions)
    exposed = exposed_times(traffic.flows, cluster, compute, micro_batches, assumptions, shares,
                            chunked=layout.pp if layout.chunks > 1 else 1)
    working = [compute, elementwise, *(exposed[axis] for axis in ("TP", "CP", "EP") if axis in exposed)]
    outside = [exposed[axis] for axis in ("PP", "DP") if axis in exposed]
    if host_bytes:
        working.append(explain("offload exposed", "s", "max(M/speed - F*work, 0) + max(M/speed - (1 - F)*work, 0)",
                               M=host_bytes, speed=assumptions.host_bytes_per_s, F=shares.forward,
                               work=float(compute) + float(elementwise)))
    working_s = sum(map(float, working))
    bubble = [step_bubble(layout.schedule, layout.pp, layout.chunks, micro_batches, working_s, float(compute), shares)]
    optimizer = optimizer_time(shape, layout, cluster, state, assumptions)
    return total("step", "s", [*working, *bubble * (layout.pp > 1), *outside, optimizer])


# What it waits for


def bubble_time(schedule: str, stages: int, chunks: int, forward_s: float, input_s: float, weight_s: float,
                micro_batches: int | None = None) -> Explained:
    """Seconds in which a device of a pipeline has nothing to do.

    forward_s, input_s, weight_s: forward, gradients of inputs, of weights, for one micro-batch on one device (all chunks).
    micro_batches: None for enough of them; with fewer than p, or 2p − 1, ZB-H1 and ZB-H2 have to wait longer.
    Source: 2104.04473, section 2.2; for ZB-H1, ZB-H2: 2401.10241, table 1 (its p2p time left out).
    """
    require_name("schedule", schedule, SCHEDULES)
    for what, count in {"stages": stages, "chunks": chunks,
                        "micro_batches": 1 if micro_batches is None else micro_batches}.items():
        require_count(what, count)
    if chunks > 1 and schedule != "interleaved":
        raise BadValue(f"{schedule} has one chunk a device; got {chunks} (the interleaved schedule has more)")
    for what, seconds in {"forward_s": forward_s, "input_s": input_s, "weight_s": weight_s}.items():
        require_number(what, seconds)
        if seconds < 0:
            raise BadValue(f"{what} must not be negative; got {seconds!r}")
    return _bubble(schedule, stages, chunks, forward_s, input_s, weight_s, micro_batches)


def _bubble(schedule: str, stages: int, chunks: int, forward_s: float, input_s: float, weight_s: float,
            micro_batches: int | None) -> Explained:
    """Without looking at what comes: a search asks often."""
    formula, source = BUBBLES[schedule]
    formula = formula.replace("few", "0" if micro_batches is None else FEW)
    return explain("bubble", "s", formula, source, p=stages, v=chunks, F=forward_s, I=input_s, W=weight_s, m=micro_batches)


def step_bubble(schedule: str, stages: int, chunks: int, micro_batches: int, working_s: float, compute_s: float,
                shares: Shares) -> Explained:
    """The bubble of a step whose devices work for working_s, of which compute_s are matrix products.

    What is no matrix product is shared out between forward and backward as these are.
    """
    one, weight = working_s / micro_batches, compute_s / micro_batches * shares.weights
    forward = one * shares.forward
    return _bubble(schedule, stages, chunks, forward, one - forward - weight, weight, micro_batches)


def exposed_times(flows: Iterable[Flow], cluster: Cluster, compute: float, micro_batches: int, assumptions: Assumptions,
                  shares: Shares = THIRDS, mean: bool = False, chunked: int = 1) -> dict[str, Explained]:
    """Seconds by axis in which devices stand still for messages: what is not hidden, or finds no computation to hide behind.

    compute: seconds of matrix products in the step. With some of the flows only: a lower bound, as they share it with fewer.
    mean: as for flow_time. chunked: stages of a pipeline whose devices have several chunks; else 1.
    """
    few = min(chunked, micro_batches) if assumptions.gather_ahead else 1
    windows = {"weights' gradients": compute * shares.weights,
               "a micro-batch": few * compute * (1 - shares.forward) / micro_batches,
               "a forward pass": few * compute * shares.forward / micro_batches * assumptions.gather_ahead,
               "all compute": float(compute)}
    times = [(flow, _alone(flow, flow_time(flow, cluster, assumptions, mean), assumptions)) for flow in flows]
    wanted = dict.fromkeys(windows, 0.0)
    for flow, time in times:
        if flow.beside:
            wanted[flow.beside] += assumptions.hidden(flow.axis) * float(time)
    exposed: dict[str, list[Explained]] = {}
    for flow, time in times:
        room = min(1.0, windows[flow.beside] / wanted[flow.beside]) if flow.beside and wanted[flow.beside] else 0.0
        share = "(1 - taken)*share" if assumptions.contention else "share"
        exposed.setdefault(flow.axis, []).append(explain(flow.what, "s", f"time*(1 - {share}*room)", time=time, room=room,
                                                         share=assumptions.hidden(flow.axis), taken=assumptions.contention))
    return {axis: total(f"{axis} exposed", "s", parts) for axis, parts in exposed.items()}


def _alone(flow: Flow, time: Explained, assumptions: Assumptions) -> Explained:
    """What is left of tensor parallel's traffic where it is cut up and runs beside the product that it belongs to."""
    if flow.axis != "TP" or not assumptions.pipelined_tp:
        return time
    return explain(flow.what, "s", "time*(1 - pipelined*(1 - taken))", time=time, pipelined=assumptions.pipelined_tp,
                   taken=assumptions.contention)


def flow_time(flow: Flow, cluster: Cluster, assumptions: Assumptions = NOTHING_HIDDEN, mean: bool = False) -> Explained:
    """Seconds that all messages of a flow take in a step, one after the other, if nothing is hidden.

    mean: of a mean device, else of the one with most to send, for which the others wait.
    Raises: ValueError if the group has members in several nodes of a cluster that has no link between them.
    """
    values = {"calls": flow.calls if mean or flow.in_turn is None else flow.in_turn, "n": flow.group.members,
              "M": flow.payload if mean or flow.largest is None else flow.largest,
              "alpha": _slowest(flow, cluster).latency_s}
    reached = assumptions.link_efficiency
    if isinstance(cluster.topology, Torus) and flow.op in TORUS_TIME and assumptions.rails is None:
        dims = cluster.topology.spanned(flow.group.members, flow.group.stride)
        if dims:
            return _torus_time(flow, cluster, dims, values, assumptions)
    if flow.op == "all_to_all":
        values |= {"alpha_inside": cluster.inside.latency_s, "k": flow.group.per_node,
                   "inside": inside_speed(cluster) * reached, "outside": _speed(flow, cluster, 1) * reached}
        if flow.copies is not None:
            formula = "calls*((k - 1)*alpha_inside + (n/k - 1)*alpha + M*((n - 1)/n/inside + copies*(1 - k/n)/outside))"
            return explain(flow.what, "s", formula, flow.source, **values, copies=flow.copies)
        formula = "calls*((k - 1)*alpha_inside + (n - k)*alpha + M/n*((k - 1)/inside + (n - k)/outside))"
        return explain(flow.what, "s", formula, THAKUR, **values)
    beta = given(1 / (_speed(flow, cluster, assumptions.rails) * reached), "s/byte")
    formula = RING_TIME[flow.op]
    if flow.op in RINGS and flow.group.crosses and flow.group.per_node > 1:  # the slower of a step inside and one outside
        inner = given(1 / (_inside_ring_speed(flow, cluster, assumptions.rails) * reached), "s/byte")
        values |= {"alpha_inside": cluster.inside.latency_s, "beta_inside": inner}
        size = "M" if flow.op == "ring hops" else "M/n"
        formula = formula.replace(f"(alpha + {size}*beta)",
                                  f"max(alpha + {size}*beta, alpha_inside + {size}*beta_inside)")
    start = "start + " if assumptions.call_s and flow.op in RINGS else ""
    return explain(flow.what, "s", f"calls*({start}{formula})", THAKUR, **values, beta=beta, start=assumptions.call_s)


def _torus_time(flow: Flow, cluster: Cluster, dims: list[tuple[int, bool]], values: dict[str, float],
                assumptions: Assumptions) -> Explained:
    """On all links of the dims that the group fills, as neighbours; M*share is what the busiest of them carries."""
    hops, share = all_to_all_on_torus(dims) if flow.op == "all_to_all" else gather_on_torus(dims)
    start = "start + " if assumptions.call_s and flow.op in RINGS else ""
    beta = given(1 / (_slowest(flow, cluster).bytes_per_s * assumptions.link_efficiency), "s/byte")
    return explain(flow.what, "s", f"calls*({start}{TORUS_TIME[flow.op]})", JAIN, **values, hops=hops, share=share,
                   beta=beta, start=assumptions.call_s)


def gather_on_torus(dims: Sequence[tuple[int, bool]]) -> tuple[int, float]:
    """(hops one after the other, share of all bytes on the busiest link) of an all-gather on all dims at once.

    dims: (members, whether their ends are joined) of each. As many parts as dims; each goes along one dim after the other,
    each beginning with another; along a ring both ways, half round.
    """
    n, hops, share = math.prod(size for size, _ in dims), 0, 0.0
    for turn in range(len(dims)):
        along = [(dims[first:] + dims[:first])[:turn + 1] for first in range(len(dims))]
        hops += max(ring_turns(size, joined) for *_, (size, joined) in along)
        share += max((size - 1) / (1 + joined) * math.prod(size for size, _ in before)
                     for *before, (size, joined) in along) / (len(dims) * n)
    return hops, share


def all_to_all_on_torus(dims: Sequence[tuple[int, bool]]) -> tuple[int, float]:
    """(hops of the longest way, share of a device's bytes on the busiest link) where each goes the shortest way."""
    hops = sum(ring_turns(size, joined) for size, joined in dims)
    crossing = (size * size // 4 / size / (1 + joined) for size, joined in dims)  # the middle, or one of two equal places
    return hops, max(crossing, default=0.0)


def _slowest(flow: Flow, cluster: Cluster) -> Link:
    """The link that sets the pace: between nodes, if the group crosses any."""
    if not flow.group.crosses:
        return cluster.inside
    if cluster.between is None:
        raise BadValue(f"{flow.axis} {flow.what} goes between nodes, and cluster {cluster.name!r} has no link there; "
                       "give it one: between=Link(...)")
    return cluster.between


def _speed(flow: Flow, cluster: Cluster, rails: int | None) -> float:
    """Bytes a second that a ring, or for sends and all-to-all a device, gets of the slowest link.

    A link for the whole node is shared by all rings that leave it, or by all devices.
    """
    link = _slowest(flow, cluster)
    if not flow.group.crosses:
        return inside_speed(cluster)
    if flow.op in RINGS:
        return _outside_ring_speed(flow, cluster, link, rails)
    return link.bytes_per_s / (cluster.devices_per_node if link.shared else 1)


def _ring_ports(flow: Flow, cluster: Cluster, rails: int | None) -> int:
    """How many rings, each through a port of its own, a group has between its nodes."""
    ports = 2 * len(cluster.topology.shape) if isinstance(cluster.topology, Torus) else flow.group.per_node
    return min(rails or ports, ports)


def _outside_ring_speed(flow: Flow, cluster: Cluster, link: Link, rails: int | None) -> float:
    """Bytes a second that all rings of a group together carry from node to node."""
    if link.shared:
        return link.bytes_per_s / max(cluster.devices_per_node // flow.group.per_node, 1)
    return link.bytes_per_s * _ring_ports(flow, cluster, rails)


def _inside_ring_speed(flow: Flow, cluster: Cluster, rails: int | None) -> float:
    """Bytes a second that they carry inside a node. A device from which one of its rings leaves carries one less inside."""
    k = flow.group.per_node
    return inside_speed(cluster) * (k / (k - 1) if _ring_ports(flow, cluster, rails) == k else 1)


def inside_speed(cluster: Cluster) -> float:
    """Bytes a second that a device gets of the link inside its node."""
    return cluster.inside.bytes_per_s / (cluster.devices_per_node if cluster.inside.shared else 1)


def days_for_tokens(tokens: float, step_tokens: float, step_s: float) -> Explained:
    """Days to train on so many tokens, at so many tokens and seconds a step."""
    for what, value in {"tokens": tokens, "step_tokens": step_tokens, "step_s": step_s}.items():
        require_positive(what, value)
    return explain("training", "days", "tokens/step_tokens*step/86400", tokens=tokens, step_tokens=step_tokens, step=step_s)
