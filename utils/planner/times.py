"""Seconds of a step: compute, what reads and writes memory, exposed communication, the pipeline's bubble, the optimizer.

Collectives cost α + β on a ring (utils.costs.formulas), all-to-all a message to each partner in turn. Left out: contention
between groups that share a link, tapered spines, stragglers, data loading, checkpoints: the simulation has the first two.
Letters as in traffic.py; D devices of data parallelism; slow: how many times as fast 8-bit products run as those in 16.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch

from utils.checking import require_count, require_flag, require_name, require_number, require_positive
from utils.deadlocks.errors import BadValue
from utils.planner.conventions import StateBytes
from utils.planner.explained import Explained, explain, given, total
from utils.planner.flows import Flow, Traffic
from utils.planner.layout import SCHEDULES, Layout
from utils.planner.memory import held_by_place, layer_counts
from utils.planner.shape import ModelShape
from utils.simulation.cluster import Cluster, Link, Torus

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
RINGS = ("all_reduce", "all_gather", "reduce_scatter", "ring hops")
THAKUR = "Thakur, Rabenseifner, Gropp 2005"


@dataclass(frozen=True)
class Assumptions:
    """What no formula knows. hidden_x: the share of an axis' traffic that runs beside computation, as far as there is any.

    hidden_tp concerns only what can hide behind the weights' gradients; hidden_dp the last micro-batch's gradients, with
    ZeRO-2 and 3 those of all, with ZeRO-3 the gathered parameters too. rails: how many ports to other nodes one group's
    ring may use: of its neighbours in a node (ready clusters are simulated with all of them); on a torus of a device's
    own, two for each dimension that the group spans (1, as the simulation has it: one way round, one dimension).
    fused_attention: scores never leave the chip, and the backward pass makes them again: half of a forward pass of the
    core (FlashAttention-2, 2307.08691). causal: scores that the mask leaves out are skipped, and counted neither in
    times nor in MFU and HFU; a kernel skips blocks, so not quite all of them.
    efficiency: share of the peak that matrix products reach; None: the device's own. dtype: of products, one that the device
    has a peak for. In 8 bits are only the inputs of products with weights; the attention core and the logits run at the
    16-bit peak (DeepSeek-V3, 2412.19437, section 3.3). activation_bytes: of a number that is kept for the backward pass, or
    sent by TP, CP, EP, PP; None: the dtype's, and at least 2 (of 8-bit runs too). Weights and gradients: see StateBytes.
    attention_again: as in ModelShape.hardware_flops, for HFU.
    Raises: TypeError, ValueError.
    """

    hidden_tp: float = 0.0
    hidden_cp: float = 0.0
    hidden_ep: float = 0.0
    hidden_pp: float = 0.0
    hidden_dp: float = 0.0
    rails: int = 1
    fused_attention: bool = False
    causal: bool = False
    efficiency: float | None = None
    dtype: str = "bfloat16"
    attention_again: float = 1
    activation_bytes: float | None = None

    def __post_init__(self):
        for what in [field.name for field in fields(self) if field.name.startswith("hidden_")]:
            require_number(what, getattr(self, what))
            if not 0 <= getattr(self, what) <= 1:
                raise BadValue(f"{what} is a share, from 0 (nothing hidden) to 1; got {getattr(self, what)}")
        require_count("rails", self.rails)
        require_number("attention_again", self.attention_again)
        if self.attention_again < 0:
            raise BadValue(f"attention_again counts passes, from 0; got {self.attention_again}")
        require_flag("fused_attention", self.fused_attention)
        require_flag("causal", self.causal)
        if self.efficiency is not None:
            require_positive("efficiency", self.efficiency)
            if self.efficiency > 1:
                raise BadValue(f"efficiency is a share of the peak, at most 1; got {self.efficiency}")
        if self.activation_bytes is not None:
            require_positive("activation_bytes", self.activation_bytes)

    def hidden(self, axis: str) -> float:
        """The share for "TP", "CP", "EP", "PP" or "DP"."""
        return getattr(self, f"hidden_{axis.lower()}")

    def flops_per_s(self, cluster: Cluster) -> float:
        """What matrix products reach on a device of the cluster."""
        return self.peak(cluster) * (self.efficiency or cluster.device.efficiency)

    def peak(self, cluster: Cluster) -> float:
        """A device's peak FLOP/s for the dtype.  Raises: ValueError if none is known."""
        require_name(f"dtype with a peak on {cluster.device.name}", self.dtype, cluster.device.flops)
        return cluster.device.flops[self.dtype]

    @property
    def number_bytes(self) -> float:
        """Bytes of a number that is kept for the backward pass or sent."""
        return self.activation_bytes or max(getattr(torch, self.dtype).itemsize, 2)

    def slowdown(self, cluster: Cluster) -> float:
        """How many times as long what stays in 16 bits takes, per FLOP, as products of the dtype: 1 but for 8-bit ones."""
        if getattr(torch, self.dtype).itemsize >= 2:
            return 1.0
        flops = cluster.device.flops
        return self.peak(cluster) / flops.get("bfloat16", flops.get("float16", self.peak(cluster)))


NOTHING_HIDDEN = Assumptions()
# What can be hidden without changing any result: Megatron-LM's and FSDP's overlap at their best.
ALL_HIDDEN = Assumptions(hidden_tp=1, hidden_cp=1, hidden_ep=1, hidden_pp=1, hidden_dp=1)


def step_time(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int, state: StateBytes, traffic: Traffic,
              assumptions: Assumptions = NOTHING_HIDDEN) -> Explained:
    """Seconds of one step, with its parts: compute, elementwise, TP, CP, EP, bubble, PP, DP, optimizer.

    Of uneven stages the slowest sets the pace. traffic: of the same layout, from step_traffic.
    """
    micro_batches = max(layout.micro_batches(global_batch), 1)
    compute = compute_time(shape, layout, cluster, global_batch, assumptions)
    elementwise = elementwise_time(shape, layout, cluster, global_batch, assumptions)
    shares = step_shares(shape, layout, cluster, global_batch, assumptions)
    exposed = exposed_times(traffic.flows, cluster, compute, micro_batches, assumptions, shares)
    working = [compute, elementwise, *(exposed[axis] for axis in ("TP", "CP", "EP") if axis in exposed)]
    outside = [exposed[axis] for axis in ("PP", "DP") if axis in exposed]
    working_s = sum(map(float, working))
    bubble = [step_bubble(layout.schedule, layout.pp, layout.chunks, micro_batches, working_s, float(compute), shares)]
    return total("step", "s", [*working, *bubble * (layout.pp > 1), *outside, optimizer_time(shape, layout, cluster, state)])


# What a device computes


class _Flops(NamedTuple):
    """FLOPs of a step: layers without recomputation, logits, what runs again; core: the attention core's of all."""

    layers: float
    logits: float
    again: float
    core: float


@functools.cache
def _flops(shape: ModelShape, global_batch: int, recompute: str, fused: bool, causal: bool) -> _Flops:
    model = float(shape.step_flops(global_batch, causal))
    logits = 3 * float(shape.forward_flops(global_batch).part("logits"))
    core = float(shape.attention_core_flops(global_batch, causal))
    scores = core / 2 if fused else 0.0
    again = float(shape.hardware_flops(global_batch, recompute, causal)) - model + scores
    return _Flops(model - logits, logits, again, core * (3 if recompute == "none" else 4) + scores)


class Shares(NamedTuple):
    """Of a step's matrix products: the forward pass, and gradients of weights. The rest: of inputs, and what runs again."""

    forward: float
    weights: float


THIRDS = Shares(1 / 3, 1 / 3)  # with few scores, and nothing computed again


@functools.cache
def pass_shares(shape: ModelShape, global_batch: int, recompute: str, fused: bool = False, slow: float = 1.0,
                causal: bool = False) -> Shares:
    """The scores of attention have no weights; what is recomputed belongs to the backward pass.

    fused, causal: as in Assumptions. slow: Assumptions.slowdown, which attention core and logits have.
    """
    step = _flops(shape, global_batch, recompute, fused, causal)
    core = float(shape.attention_core_flops(global_batch, causal))
    forward = float(shape.forward_flops(global_batch, causal)) + (slow - 1) * (core + step.logits / 3)
    done = step.layers + step.logits + step.again + (slow - 1) * (step.core + step.logits)
    return Shares(forward / done, (forward - slow * core) / done)


def step_shares(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int, assumptions: Assumptions) -> Shares:
    """The same for a layout's step on a cluster."""
    return pass_shares(shape, global_batch, layout.recompute, assumptions.fused_attention, assumptions.slowdown(cluster),
                       assumptions.causal)


def compute_time(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int,
                 assumptions: Assumptions) -> Explained:
    """Matrix products on the slowest device: the last, which has the logits, or one with more layers, all as the mean."""
    step = _flops(shape, global_batch, layout.recompute, assumptions.fused_attention, assumptions.causal)
    counts, slow = layer_counts(shape, layout), assumptions.slowdown(cluster)
    name, layers, logits = "FLOPs of a device on the slowest stage", "(layers + again)", "logits"
    if slow > 1:
        name += ", each as long as one in 8 bits"
        layers, logits = "(layers + again + (slow - 1)*core)", "slow*logits"
    flops = explain(name, "FLOP", f"max({layers}*most/L, {layers}*last/L + {logits})/(D*t*c)", **step._asdict(), slow=slow,
                    L=shape.layers, most=max(counts), last=counts[-1], D=layout.dp, t=layout.tp, c=layout.cp)
    return explain("compute", "s", "flops/speed", flops=flops, speed=assumptions.flops_per_s(cluster))


def elementwise_time(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int,
                     assumptions: Assumptions) -> Explained:
    """Norms, dropout, residuals (22h bytes a token and pass), activation function, softmax: limited by memory's speed.

    Our own count, of numbers of z bytes: norms read and write one, dropout with residual reads two and writes one and a
    mask; softmax with its dropout reads and writes two and a mask for each score. Backward moves twice as much as forward.
    Only SP splits the first over t.
    """
    columns = (shape.experts_per_token + shape.shared_experts) * shape.expert_size if shape.experts else shape.ffn_size
    again = {"none": (3, 3), "selective": (3, 4), "full": (4, 4)}[layout.recompute]
    moved = shape.explain("bytes a token and layer", "bytes", "passes*((10*z + 2)*h/T + z*m*f/t) + cores*(4*z + 1)*a*y/t",
                          f=columns, z=assumptions.number_bytes, t=layout.tp, passes=again[0],
                          T=layout.tp if layout.sequence_parallel else 1,
                          cores=0 if assumptions.fused_attention else again[1])
    return shape.explain("elementwise", "s", "moved*s*B/(D*c)*most/bandwidth", "own count", moved=moved, B=global_batch,
                         D=layout.dp, c=layout.cp, most=max(layer_counts(shape, layout)),
                         bandwidth=cluster.device.memory_bytes_per_s)


def optimizer_time(shape: ModelShape, layout: Layout, cluster: Cluster, state: StateBytes) -> Explained:
    """Adam reads and writes its state, reads gradients, writes parameters, all at the memory's speed, on the fullest device.

    ZeRO divides routed experts among fewer ranks than the rest: they have fewer copies.
    """
    ranks = layout.shard_ranks
    of_experts = max(ranks // layout.ep, 1)
    updated = max(rest / ranks + routed / of_experts for rest, routed in held_by_place(shape, layout))
    return explain("optimizer", "s", "(2*optimizer + gradient + parameter)*P/bandwidth", optimizer=state.optimizer,
                   gradient=state.gradient, parameter=state.parameter, bandwidth=cluster.device.memory_bytes_per_s,
                   P=explain("parameters that a device updates", "parameters", "P", P=updated))


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
                  shares: Shares = THIRDS, mean: bool = False) -> dict[str, Explained]:
    """Seconds by axis in which devices stand still for messages: what is not hidden, or finds no computation to hide behind.

    compute: seconds of matrix products in the step. With some of the flows only: a lower bound, as they share it with fewer.
    mean: as for flow_time.
    """
    windows = {"weights' gradients": compute * shares.weights,
               "a micro-batch": compute * (1 - shares.forward) / micro_batches, "all compute": float(compute)}
    times = [(flow, flow_time(flow, cluster, assumptions, mean)) for flow in flows]
    wanted = dict.fromkeys(windows, 0.0)
    for flow, time in times:
        if flow.beside:
            wanted[flow.beside] += assumptions.hidden(flow.axis) * float(time)
    exposed: dict[str, list[Explained]] = {}
    for flow, time in times:
        room = min(1.0, windows[flow.beside] / wanted[flow.beside]) if flow.beside and wanted[flow.beside] else 0.0
        exposed.setdefault(flow.axis, []).append(explain(flow.what, "s", "time*(1 - share*room)", time=time, room=room,
                                                         share=assumptions.hidden(flow.axis)))
    return {axis: total(f"{axis} exposed", "s", parts) for axis, parts in exposed.items()}


def flow_time(flow: Flow, cluster: Cluster, assumptions: Assumptions = NOTHING_HIDDEN, mean: bool = False) -> Explained:
    """Seconds that all messages of a flow take in a step, one after the other, if nothing is hidden.

    mean: of a mean device, else of the one with most to send, for which the others wait.
    Raises: ValueError if the group has members in several nodes of a cluster that has no link between them.
    """
    values = {"calls": flow.calls if mean or flow.in_turn is None else flow.in_turn, "n": flow.group.members,
              "M": flow.payload if mean or flow.largest is None else flow.largest,
              "alpha": _slowest(flow, cluster).latency_s}
    if flow.op == "all_to_all":
        formula = "calls*((k - 1)*alpha_inside + (n - k)*alpha + M/n*((k - 1)/inside + (n - k)/outside))"
        return explain(flow.what, "s", formula, THAKUR, **values, alpha_inside=cluster.inside.latency_s,
                       k=flow.group.per_node, inside=inside_speed(cluster), outside=_speed(flow, cluster, 1))
    beta = given(1 / _speed(flow, cluster, assumptions.rails), "s/byte")
    return explain(flow.what, "s", f"calls*({RING_TIME[flow.op]})", THAKUR, **values, beta=beta)


def _slowest(flow: Flow, cluster: Cluster) -> Link:
    """The link that sets the pace: between nodes, if the group crosses any."""
    if not flow.group.crosses:
        return cluster.inside
    if cluster.between is None:
        raise BadValue(f"{flow.axis} {flow.what} goes between nodes, and cluster {cluster.name!r} has no link there; "
                       "give it one: between=Link(...)")
    return cluster.between


def _speed(flow: Flow, cluster: Cluster, rails: int) -> float:
    """Bytes a second that a ring, or for sends and all-to-all a device, gets of the slowest link.

    A link for the whole node is shared by all rings that leave it, or by all devices.
    """
    link = _slowest(flow, cluster)
    if not flow.group.crosses:
        return inside_speed(cluster)
    if flow.op in RINGS:
        return ring_speed(cluster, link, flow.group.per_node, rails)
    return link.bytes_per_s / (cluster.devices_per_node if link.shared else 1)


def ring_speed(cluster: Cluster, link: Link, per_node: int, rails: int = 1) -> float:
    """Bytes a second between neighbours of a ring that has `per_node` ranks in each node and crosses nodes by `link`."""
    ports = 2 * len(cluster.topology.shape) if isinstance(cluster.topology, Torus) else per_node
    users = max(cluster.devices_per_node // per_node, 1)
    speed = link.bytes_per_s / users if link.shared else link.bytes_per_s * min(rails, ports)
    return min(speed, inside_speed(cluster)) if per_node > 1 else speed


def inside_speed(cluster: Cluster) -> float:
    """Bytes a second that a device gets of the link inside its node."""
    return cluster.inside.bytes_per_s / (cluster.devices_per_node if cluster.inside.shared else 1)


def days_for_tokens(tokens: float, step_tokens: float, step_s: float) -> Explained:
    """Days to train on so many tokens, at so many tokens and seconds a step."""
    for what, value in {"tokens": tokens, "step_tokens": step_tokens, "step_s": step_s}.items():
        require_positive(what, value)
    return explain("training", "days", "tokens/step_tokens*step/86400", tokens=tokens, step_tokens=step_tokens, step=step_s)
