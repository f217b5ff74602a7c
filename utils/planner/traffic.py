"""Bytes that each device sends in a step, by parallelism, inside its node and between nodes.

Letters as in flows.py and shape.py; z bytes of a number that TP, CP, EP, PP send. Counted is the mean over all devices;
routing to experts is taken as even.
Not counted: gradient norms, losses, the copies of key-value heads, vocabulary-parallel embedding and loss.
"""

from collections.abc import Sequence
from typing import NamedTuple

from utils.checking import require_count, require_kind, require_name, require_positive
from utils.planner.assumptions import DISPATCH
from utils.planner.conventions import StateBytes
from utils.planner.explained import Explained, explain
from utils.planner.flows import AXES, ORDER, Flow, Group, Traffic, group_of
from utils.planner.layout import Layout
from utils.planner.memory import held_by_place, layer_counts
from utils.planner.shape import ModelShape

THAKUR = "Thakur, Rabenseifner, Gropp 2005"
MEGATRON = "Shoeybi et al. 2019 (1909.08053), section 3"
KORTHIKANTI = "Korthikanti et al. 2022 (2205.05198), section 4.2"
MICS = "Zhang et al. 2022 (MiCS, 2205.00119), section 3"
ZERO = "Rajbhandari et al. 2020 (1910.02054), section 7"


def step_traffic(shape: ModelShape, layout: Layout, global_batch: int, state: StateBytes, devices_per_node: int,
                 order: Sequence[str] = ORDER, scatter_gather: bool = True, axes: Sequence[str] = AXES,
                 number_bytes: float = 2, dispatch: str = "experts",
                 gathered_input_bytes: float | None = None) -> Traffic:
    """What the devices of a layout send each other in one step.

    order: axes from the innermost, which fill a node first. scatter_gather: without sequence parallelism, tensor-parallel
    ranks pass a t-th of the stage's output each (2104.04473, section 4.1), not all of it; what gathers it again is in TP.
    axes: those that are wanted. number_bytes: of a number that TP, CP, EP, PP send. dispatch, gathered_input_bytes:
    as in Assumptions.
    """
    for what, value, kind in (("shape", shape, ModelShape), ("layout", layout, Layout), ("state", state, StateBytes)):
        require_kind(what, value, kind)
    require_count("global_batch", global_batch)
    require_count("devices_per_node", devices_per_node)
    require_positive("number_bytes", number_bytes)
    for axis in axes:
        require_name("axis", axis, AXES)
    micro_batches = max(layout.micro_batches(global_batch), 1)
    require_name("dispatch", dispatch, DISPATCH)
    step = _Step(shape, layout, micro_batches, state, devices_per_node, tuple(order), scatter_gather, number_bytes, dispatch,
                 gathered_input_bytes or number_bytes)
    kinds = {"TP": _tensor, "CP": _context, "EP": _experts, "PP": _pipeline, "DP": _data}
    return Traffic(tuple(flow for axis in axes for flow in kinds[axis](step) if flow.group.members > 1))


class _Step(NamedTuple):
    shape: ModelShape
    layout: Layout
    micro_batches: int
    state: StateBytes
    devices_per_node: int
    order: tuple[str, ...]
    scatter_gather: bool
    number_bytes: float
    dispatch: str
    gathered_input_bytes: float

    def group(self, *axes: str) -> Group:
        return group_of(axes, self.layout, self.devices_per_node, self.order)

    def calls(self, expression: str, **values: float) -> Explained:
        """How often."""
        return self.shape.explain("calls", "", expression, m=self.micro_batches, p=self.layout.pp, v=self.layout.chunks,
                                  **values)

    def layer_calls(self, times: int, moe: bool = False) -> tuple[Explained, Explained]:
        """So many calls a layer, or a layer with experts, and micro-batch: of a mean device, and of the one with most."""
        return (self.calls(f"times*m*{'moe' if moe else 'L'}/p", times=times),
                self.calls("times*m*most", times=times, most=max(layer_counts(self.shape, self.layout, moe))))

    def payload(self, name: str, expression: str, **values: float) -> Explained:
        return self.shape.explain(name, "bytes", expression, B=self.layout.micro_batch, c=self.layout.cp, t=self.layout.tp,
                                  z=self.number_bytes, **values)

    @property
    def split_hidden(self) -> bool:
        """Whether what stages hand on is split over the tensor-parallel ranks."""
        return self.layout.sequence_parallel or self.scatter_gather


def _tensor(step: _Step) -> list[Flow]:
    """f and g: in each pass two all-reduces a layer (one, if attention and FFN share it), with SP as reduce-scatter, gather.

    In the backward pass the gradient of a column-split layer's input can be reduced while its weights' gradients are
    computed; SP must gather that input again, which was kept in shards, and can do so at the same time.
    """
    group, hidden = step.group("tp"), step.payload("hidden states", "z*B*s/c*h")
    inputs = hidden if step.gathered_input_bytes == step.number_bytes else \
        step.payload("hidden states, gathered", "o*B*s/c*h", o=step.gathered_input_bytes)
    forwards = 2 if step.layout.recompute == "full" else 1
    each = 1 if step.shape.parallel_ffn else 2

    def flow(what: str, op: str, times: int, beside: str = "", source: str = MEGATRON) -> Flow:
        calls, most = step.layer_calls(times)
        return Flow("TP", what, op, group, calls, inputs if op == "all_gather" else hidden, beside, source, most)

    if step.layout.sequence_parallel:
        alone = [flow("gather, in the way", "all_gather", each * (forwards + 1), source=KORTHIKANTI),
                 flow("reduce, in the way", "reduce_scatter", each * forwards, source=KORTHIKANTI)]
        hidable = [flow("gather beside weights' gradients", "all_gather", each, "weights' gradients", KORTHIKANTI),
                   flow("reduce beside weights' gradients", "reduce_scatter", each, "weights' gradients", KORTHIKANTI)]
        return alone + hidable
    flows = [flow("in the way", "all_reduce", each * forwards),
             flow("beside weights' gradients", "all_reduce", each, "weights' gradients")]
    if step.scatter_gather and step.layout.pp > 1:
        flows.append(Flow("TP", "gather a stage's input", "all_gather", group, step.calls("2*m*(v*p - 1)/p"), hidden,
                          in_turn=step.calls("2*m*v")))
    return flows


def _context(step: _Step) -> list[Flow]:
    """Ring attention: each rank's keys and values go round; in the backward pass again, with their gradients.

    In a windowed layer they go only as far as a window reaches: W keys are those of ⌈W/(s/c)⌉ ranks before.
    """
    times = 3 + (step.layout.recompute == "full")
    keys_values = step.payload("keys and values of a rank", "z*B*s/c*max(g/t, 1)*(2*d + r)")
    calls, most = step.layer_calls(times)
    if step.shape.window_layers and step.layout.cp > 1:
        share = step.shape.explain("rounds a layer", "", "(full + near*min(ceil(W*c/s)/(c - 1), 1))/L", c=step.layout.cp)
        calls, most = (explain("calls", "", "calls*share", calls=each, share=share) for each in (calls, most))
    return [Flow("CP", "keys and values", "ring hops", step.group("cp"), calls, keys_values, "all compute",
                 "Liu et al. 2023 (2310.01889)", most)]


def _experts(step: _Step) -> list[Flow]:
    """Each layer with experts: tokens out and back, forward and backward."""
    if step.layout.ep == 1:
        return []
    times = 4 + 2 * (step.layout.recompute == "full")
    split = step.layout.tp if step.layout.sequence_parallel else 1
    tokens = step.payload("tokens, once for each expert", "z*B*s/c*k*h/T", T=split)
    calls, most = step.layer_calls(times, moe=True)
    group, copies, source = step.group("ep"), None, "Lepikhin et al. 2020 (GShard)"
    if step.dispatch == "nodes" and group.crosses:
        nodes = group.members / group.per_node
        limit = min(step.shape.routed_nodes or step.shape.experts_per_token, step.shape.experts_per_token)
        copies = step.shape.explain("nodes that a token goes to, over its experts", "", "min(N*(1 - (1 - 1/N)**k), limit)/k",
                                    N=nodes, limit=limit)
        source = "DeepSeek-V3 (2412.19437), section 3.2.2"
    return [Flow("EP", "tokens to experts and back", "all_to_all", group, calls, tokens, "all compute", source, most,
                 copies=copies)]


def _pipeline(step: _Step) -> list[Flow]:
    """Hidden states forward, their gradients backward, at each border of stages; with chunks also from last to first."""
    t = step.layout.tp if step.split_hidden else 1
    hidden = step.payload("hidden states of a stage", "z*B*s/c*h/T", T=t)
    op = "send around" if step.layout.chunks > 1 else "send"
    flows = [Flow("PP", "hidden states and their gradients", op, step.group("pp"), step.calls("2*m*(v*p - 1)/p"), hidden,
                  "all compute", "Narayanan et al. 2021 (2104.04473), section 3.2", step.calls("2*m*v"))]
    if step.shape.tied and step.layout.pp > 1:
        table = step.shape.explain("gradient of the embedding", "bytes", "bytes_each*ceil(V/t)*h", t=step.layout.tp,
                                   bytes_each=step.state.gradient)
        ends = Group(2, 2 if not step.group("pp").crosses else 1)
        flows.append(Flow("PP", "gradient of the tied embedding", "all_reduce", ends, step.calls("2/p"), table, "", MEGATRON,
                          step.calls("1")))
    return flows


def _data(step: _Step) -> list[Flow]:
    """DP, ZeRO: gradients reduced, parameters gathered. Routed experts have fewer replicas than the rest."""
    held = held_by_place(step.shape, step.layout)
    parts = step.layout.shard is not None
    all_ranks, experts = (("shard",), ("expert_shard",)) if parts else (("cp", "dp"), ("expert_dp",))
    if step.layout.ep == 1:
        return _sharding(step, step.group(*all_ranks), "", [sum(of_place) for of_place in held])
    rest, routed = zip(*held, strict=True)
    return _sharding(step, step.group(*all_ranks), "", rest) + _sharding(step, step.group(*experts), "experts' ", routed)


def _sharding(step: _Step, group: Group, of: str, held: Sequence[float]) -> list[Flow]:
    """ZeRO 0: an all-reduce. 1: reduce-scatter, all-gather. 2: a reduce-scatter each micro-batch. 3: and two all-gathers.

    held: parameters on the devices at each place of the pipeline. Over a part of the ranks: then, once a step, the copies of
    each shard's gradient are reduced.
    """
    mean = explain("parameters of a mean device", "parameters", "sum/p", sum=sum(held), p=len(held))

    def flow(what: str, op: str, calls: str, each: float, beside: str, source: str = ZERO, among: Group = group) -> Flow:
        payload, largest = (explain(f"{of}{what}", "bytes", "k*P", k=each, P=P) for P in (mean, max(held)))
        return Flow("DP", f"{of}{what}", op, among, step.calls(calls), payload, beside, source, largest=largest)

    gradient, parameter = step.state.reduced_bytes, step.state.gathered_bytes
    if step.layout.zero == 0:
        return [flow("gradients", "all_reduce", "1", gradient, "a micro-batch", THAKUR)]
    zero = step.layout.zero if step.layout.reshard else 1
    reductions, gathers = [("1", "1"), ("m", "1"), ("m", "2*m")][zero - 1]
    flows = [flow("gradients", "reduce_scatter", reductions, gradient, "a micro-batch" if zero == 1 else "all compute"),
             flow("parameters", "all_gather", gathers, parameter, "all compute" if zero == 3 else "a forward pass")]
    if step.layout.shard is not None:
        flows.append(flow("gradients of shards", "all_reduce", "1", gradient / group.members, "a micro-batch", MICS,
                          step.group("replica")))
    return flows
