"""What a device does in a step: matrix products, kernels that only read and write memory, the optimizer.

Letters as in shape.py; D devices of data parallelism, c of context parallelism; T ranks over which SP splits what TP leaves
whole; z bytes of a number that is kept or sent, o of a product's operand; slow, slow16: how many times as long as
products the attention core and the logits take for each FLOP.
"""

import functools
from typing import NamedTuple

from utils.planner.assumptions import Assumptions
from utils.planner.conventions import StateBytes
from utils.planner.explained import Explained, explain, total
from utils.planner.layout import Layout
from utils.planner.memory import held_by_place, layer_counts, layer_parameters
from utils.planner.shape import AGAIN_IN_PRODUCTS, ModelShape
from utils.simulation.cluster import Cluster

# Forward passes of the elementwise work, and of the attention core's, that a step is worth.
PASSES = {"none": (3, 3), "selective": (3, 4), "elementwise": (4, 4), "products": (4, 3), "full": (4, 4)}


class _Flops(NamedTuple):
    """FLOPs of a step: layers without recomputation, logits, what runs again; core: the attention core's of all."""

    layers: float
    logits: float
    again: float
    core: float


@functools.cache
def _flops(shape: ModelShape, global_batch: int, recompute: str, share: float, fused: bool, causal: bool,
           early_stop: bool) -> _Flops:
    model = float(shape.step_flops(global_batch, causal))
    logits = 3 * float(shape.forward_flops(global_batch).part("logits"))
    core = float(shape.attention_core_flops(global_batch, causal))
    scores = core / 2 if fused else 0.0
    repeated = float(shape.hardware_flops(global_batch, recompute, causal)) - model
    if early_stop and recompute == "full":
        repeated -= last_products(shape, global_batch)
    again = share * repeated + scores
    runs = 3 + share * (PASSES[recompute][1] - 3)
    return _Flops(model - logits, logits, again, core * runs + scores)


def last_products(shape: ModelShape, global_batch: int) -> float:
    """FLOPs of the last product of each layer, forward."""
    columns = (shape.layers - shape.moe_layers) * shape.ffn_size + shape.moe_layers * shape.expert_size * (
        shape.experts_per_token + shape.shared_experts)
    return 2 * global_batch * shape.sequence * shape.width * columns


class Shares(NamedTuple):
    """Of a step's matrix products: the forward pass, and gradients of weights. The rest: of inputs, and what runs again."""

    forward: float
    weights: float


THIRDS = Shares(1 / 3, 1 / 3)  # with few scores, and nothing computed again


@functools.cache
def pass_shares(shape: ModelShape, global_batch: int, recompute: str, fused: bool = False, slow: float = 1.0,
                causal: bool = False, slow_core: float | None = None, share: float = 1.0,
                early_stop: bool = False) -> Shares:
    """The scores of attention have no weights; what is recomputed belongs to the backward pass.

    fused, causal: as in Assumptions. slow, slow_core: Assumptions.slowdowns, of the logits and of the attention core (as the
    logits, if not given). share: of the layers that are recomputed. early_stop: as in Assumptions.
    """
    slow_core = slow if slow_core is None else slow_core
    step = _flops(shape, global_batch, recompute, share, fused, causal, early_stop)
    core = float(shape.attention_core_flops(global_batch, causal))
    forward = float(shape.forward_flops(global_batch, causal)) + (slow_core - 1) * core + (slow - 1) * step.logits / 3
    done = step.layers + step.logits + step.again + (slow_core - 1) * step.core + (slow - 1) * step.logits
    return Shares(forward / done, (forward - slow_core * core) / done)


def step_shares(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int, assumptions: Assumptions) -> Shares:
    """The same for a layout's step on a cluster."""
    core, logit = assumptions.slowdowns(cluster)
    return pass_shares(shape, global_batch, layout.recompute, assumptions.fused_attention, logit, assumptions.causal, core,
                       layout.recomputed_share(shape.layers), assumptions.early_stop)


def compute_time(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int,
                 assumptions: Assumptions) -> Explained:
    """Matrix products on the slowest device: the last, which has the logits, or one with more layers, all as the mean."""
    step = _step_flops(shape, layout, global_batch, assumptions)
    counts, (core_slow, logit_slow) = layer_counts(shape, layout), assumptions.slowdowns(cluster)
    name, layers, logits = "FLOPs of a device on the slowest stage", "(layers + again)", "logits"
    if core_slow != 1:
        name, layers = "FLOPs of a device on the slowest stage, as fast as products", "(layers + again + (slow - 1)*core)"
    if logit_slow != 1:
        logits = "slow16*logits"
    flops = explain(name, "FLOP", f"max({layers}*most/L, {layers}*last/L + {logits})/(D*t*c)", **step._asdict(),
                    slow=core_slow, slow16=logit_slow, L=shape.layers, most=max(counts), last=counts[-1], D=layout.dp,
                    t=layout.tp, c=layout.cp)
    return explain("compute", "s", "flops/speed", flops=flops, speed=assumptions.flops_per_s(cluster))


def _step_flops(shape: ModelShape, layout: Layout, global_batch: int, assumptions: Assumptions) -> _Flops:
    return _flops(shape, global_batch, layout.recompute, layout.recomputed_share(shape.layers), assumptions.fused_attention,
                  assumptions.causal, assumptions.early_stop)


def _last_is_slowest(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int,
                     assumptions: Assumptions) -> bool:
    """Whether the head makes the last device the slowest, or a device with more layers is slower still."""
    step, counts = _step_flops(shape, layout, global_batch, assumptions), layer_counts(shape, layout)
    core, logit = assumptions.slowdowns(cluster)
    a_layer = (step.layers + step.again + (core - 1) * step.core) / shape.layers
    return a_layer * (max(counts) - counts[-1]) <= logit * step.logits


def elementwise_time(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int,
                     assumptions: Assumptions) -> Explained:
    """What only memory's speed limits: norms, residuals, activation function, softmax; also what products read and write.

    Our own count, of numbers of z bytes (Assumptions.kernels). Softmax with its dropout reads and writes two and a mask for
    each score. Backward moves twice as much as forward. Only SP splits over t what has width h.
    """
    moved = _layer_bytes(shape, layout, assumptions)
    values = {"moved": moved, "B": global_batch, "D": layout.dp, "c": layout.cp, "most": max(layer_counts(shape, layout)),
              "bandwidth": cluster.device.memory_bytes_per_s}
    bandwidth = "bandwidth"
    if assumptions.memory_efficiency != 1:
        bandwidth, values["reached"] = "(reached*bandwidth)", assumptions.memory_efficiency
    layers = "moved*most"
    at_head = _logit_bytes(shape, layout, assumptions)
    if at_head and (layout.pp == 1 or _last_is_slowest(shape, layout, cluster, global_batch, assumptions)):
        layers = "(moved*last + head)"
        values.update(head=at_head, last=layer_counts(shape, layout)[-1])
    return shape.explain("elementwise", "s", f"{layers}*s*B/(D*c)/{bandwidth}", "own count", **values)


def _layer_bytes(shape: ModelShape, layout: Layout, assumptions: Assumptions) -> Explained:
    """Bytes that a token costs in a layer, in all passes of a step."""
    kernels, share = assumptions.kernels, layout.recomputed_share(shape.layers)
    passes, cores = (3 + share * (times - 3) for times in PASSES[layout.recompute])
    columns = (shape.experts_per_token + shape.shared_experts) * shape.expert_size if shape.experts else shape.ffn_size
    width = "(R*z + masks)*h/T" if kernels.masks else "R*z*h/T"
    terms = [width, f"{'A*' * (kernels.activation != 1)}z*m*f/t"]
    terms += ["Y*z*(a + g)*d/t"] * (kernels.rotary > 0) + ["X*z*k*h/T"] * (shape.experts > 0 and kernels.permuted > 0)
    expression = f"passes*({' + '.join(terms)})"
    if not assumptions.fused_attention:
        expression += " + cores*(4*z + 1)*a*y/t"
    values = {"f": columns, "z": assumptions.number_bytes, "t": layout.tp, "passes": passes, "cores": cores,
              "R": kernels.residual, "masks": kernels.masks, "A": kernels.activation, "Y": kernels.rotary,
              "X": kernels.permuted, "T": layout.tp if layout.sequence_parallel else 1}
    moved = shape.explain("bytes a token and layer", "bytes", expression, **values)
    parts = [moved, *_product_bytes(shape, layout, assumptions)]
    return total("bytes a token and layer, products' too", "bytes", parts) if len(parts) > 1 else moved


def _product_bytes(shape: ModelShape, layout: Layout, assumptions: Assumptions) -> list[Explained]:
    """What products with weights read and write, and what making their 8-bit operands does."""
    kernels, size = assumptions.kernels, assumptions.product_bytes
    casts = kernels.cast_bytes if size < 2 else 0
    if not kernels.operands and not casts:
        return []
    inputs, outputs = _operands(shape, layout.tp, 1, layout.expert_spread)
    again = AGAIN_IN_PRODUCTS[layout.recompute] * layout.recomputed_share(shape.layers)
    values = {"inputs": inputs, "outputs": outputs, "P": layer_parameters(shape, bool(shape.experts), layout),
              "B": layout.micro_batch, "c": layout.cp, "passes": 3 + again}
    parts = []
    if kernels.operands:
        parts.append(shape.explain("operands and results of products", "bytes",
                                   "passes*(o*inputs + z*outputs + o*P*c/(B*s))", o=size, z=2, **values))
    if casts:  # before they are gathered
        values["inputs"], values["outputs"] = _operands(
            shape, layout.tp, layout.tp if layout.sequence_parallel else 1, layout.expert_spread)
        parts.append(shape.explain("operands made in 8 bits", "bytes", "each*(passes - 1)/2*(inputs + outputs + P*c/(B*s))",
                                   each=casts, **values))
    return parts


@functools.cache
def _operands(shape: ModelShape, tp: int, whole_over: int, spread: int) -> tuple[Explained, Explained]:
    """Numbers that the products of a layer read of a token, and write; of those of width h one in whole_over.

    spread: of the tp ranks that have a token, one in so many sends it to an expert.
    """
    if shape.latent_rank:
        read, written = "h/T + q + u + a*d/t", "q + u + r + (a*(d + r) + 2*a*d)/t + h/T"
    else:
        read, written = "h/T + a*d/t", "(a + 2*g)*d/t + h/T"
    if shape.experts:
        routed = "(k/u + S)" if spread > 1 else "(k + S)"
        read, written = f"{read} + {routed}*h/T + (k + S)*x/t", f"{written} + (k + S)*(m - 1)*x/t + {routed}*h/T"
    else:
        read, written = f"{read} + h/T + f/t", f"{written} + (m - 1)*f/t + h/T"
    if whole_over == 1:
        read, written = read.replace("h/T", "h"), written.replace("h/T", "h")
    return tuple(shape.explain(f"numbers that products {what}", "", formula, t=tp, T=whole_over, u=spread)
                 for what, formula in (("read", read), ("write", written)))


@functools.cache
def _logit_bytes_of(shape: ModelShape, tp: int, tokens: float, each: float, operands: bool) -> Explained | float:
    if not each and not operands:
        return 0.0
    terms = ["each*V/t"] * (each > 0) + ["3*2*(h + V/t + h*V/t/tokens)"] * operands
    return shape.explain("bytes a token at the head", "bytes", " + ".join(terms), each=each, t=tp, tokens=tokens)


def _logit_bytes(shape: ModelShape, layout: Layout, assumptions: Assumptions) -> Explained | float:
    """Bytes that a token costs at the head: its products, softmax, loss."""
    kernels = assumptions.kernels
    return _logit_bytes_of(shape, layout.tp, layout.micro_batch * shape.sequence / layout.cp, kernels.logit_bytes,
                           kernels.operands)


def optimizer_time(shape: ModelShape, layout: Layout, cluster: Cluster, state: StateBytes,
                   assumptions: Assumptions) -> Explained:
    """Adam reads and writes its state, reads gradients, writes parameters, all at the memory's speed, on the fullest device.

    ZeRO divides routed experts among fewer ranks than the rest: they have fewer copies.
    """
    ranks = layout.shard_ranks
    of_experts = layout.expert_ranks(ranks)
    updated = max(rest / ranks + routed / of_experts for rest, routed in held_by_place(shape, layout))
    return explain("optimizer", "s", "(2*optimizer + gradient + parameter)*P/bandwidth", optimizer=state.optimizer,
                   gradient=state.gradient, parameter=state.parameter,
                   bandwidth=cluster.device.memory_bytes_per_s * assumptions.memory_efficiency,
                   P=explain("parameters that a device updates", "parameters", "P", P=updated))
