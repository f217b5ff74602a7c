"""What no formula knows: what hides behind what, how fast kernels are, what they move and keep."""

from dataclasses import dataclass, fields
from typing import Any

import torch

from utils.checking import require_count, require_flag, require_kind, require_name, require_number, require_positive
from utils.deadlocks.errors import BadValue
from utils.simulation.cluster import Cluster

DISPATCH = ("experts", "nodes")


def _not_negative(what: str, value: float) -> None:
    require_number(what, value)
    if value < 0:
        raise BadValue(f"{what} must not be negative; got {value!r}")


@dataclass(frozen=True)
class Kernels:
    """What kernels read and write in the device's memory beside computing, in numbers a token and layer of a forward pass.

    residual: so many of width h (norms, residual sums); masks: bytes of dropout's masks for each of the h. activation: times
    m·f, what the activation function reads and writes. rotary: times (a + g)·d, queries and keys. permuted: times k·h, rows
    that are sorted by expert and back. Backward moves twice as much as forward.
    operands: products, too, read their inputs and weights and write their results; that takes time beside their FLOPs, which
    only small products feel. logit_bytes: for each logit, forward and backward: copies in other dtypes, softmax, loss,
    gradient. cast_bytes: for each number that becomes an operand of an 8-bit product, forward and backward: read, scaled,
    written, often a second time transposed.
    Raises: TypeError, ValueError.
    """

    name: str
    residual: float = 10
    masks: float = 2
    activation: float = 1
    rotary: float = 0
    permuted: float = 0
    operands: bool = False
    logit_bytes: float = 0
    cast_bytes: float = 0

    def __post_init__(self):
        require_flag(f"{self.name}: operands", self.operands)
        for what in ("residual", "masks", "activation", "rotary", "permuted", "logit_bytes", "cast_bytes"):
            _not_negative(f"{self.name}: {what}", getattr(self, what))


# Norms read and write one number, dropout with residual reads two and writes one and a mask; nothing else is counted.
OWN_COUNT = Kernels("norms, dropout and activation function alone")


@dataclass(frozen=True)
class Assumptions:
    """What no formula knows. hidden_x: the share of an axis' traffic that runs beside computation, as far as there is any.

    hidden_tp concerns only what can hide behind the weights' gradients; hidden_dp the last micro-batch's gradients, with
    ZeRO-2 and 3 those of all, with ZeRO-3 the gathered parameters too. gather_ahead: ZeRO-1 and 2 gather parameters beside
    the next forward pass, of which hidden_dp is then hidden; with chunks, gathers and reductions go chunk by chunk beside
    those of as many micro-batches as there are stages. early_stop: full recomputation leaves out a layer's last product,
    whose result nobody needs (torch.utils.checkpoint). pipelined_tp: the share of TP's gathers and reductions that are cut
    up and run beside the product that they belong to (async TP, Transformer Engine's overlap). contention: the share of its
    time by which hidden traffic lengthens the computation, whose processors and memory it uses.
    rails: how many ports to other nodes one group's ring may use; None: those of its neighbours in a node, as NCCL does; on
    a torus of a device's own, two for each dimension that the group spans (1: one way round, one dimension).
    link_efficiency: share of the data sheet's bandwidth that collectives reach. call_s: what starting a collective costs,
    beside its links' latencies. gathered_input_bytes: of a number that TP gathers; None: as it sends others. dispatch: to
    whom a token is sent: to each of its "experts", or once to each of their "nodes", whose devices pass it on.
    fused_attention: scores never leave the chip, and the backward pass makes them again: half of a forward pass of the
    core (FlashAttention-2, 2307.08691). causal: scores that the mask leaves out are skipped, and counted neither in
    times nor in MFU and HFU; a kernel skips blocks, so not quite all of them.
    efficiency: share of the peak that matrix products reach; None: the device's own. attention_efficiency: that the
    attention core reaches, of the 16-bit peak; None: as products. memory_efficiency: share of the memory's speed. kernels:
    what they move. dtype: of products, one that the device has a peak for. In 8 bits are only the inputs of products with
    weights; the attention core and the logits run at the 16-bit peak (DeepSeek-V3, 2412.19437, section 3.3).
    activation_bytes: of a number that is kept for the backward pass, or sent by TP, CP, EP, PP; None: the dtype's, and at
    least 2 (of 8-bit runs too). Weights and gradients: see StateBytes. attention_again: as in ModelShape.hardware_flops,
    for HFU.
    logit_bytes: kept for each logit when the loss is computed: 4 one fp32 copy; 10 16-bit logits, their fp32 copy and its
    gradient; 0 a loss that makes them in pieces. fragmentation: bytes that the allocator holds and cannot use, as a share
    of those in use. operand_bytes: of a product's input that is kept for the backward pass; None: as other numbers
    (Transformer Engine keeps the 8-bit one). library_bytes: what the framework takes by itself: context, workspaces,
    communication buffers. host_bytes_per_s: of a device's way to its host's memory, in each direction; 16 lanes of PCIe 4
    have 32 GB/s, of PCIe 5 64, and copies reach about four fifths. Raises: TypeError, ValueError.
    """

    hidden_tp: float = 0.0
    hidden_cp: float = 0.0
    hidden_ep: float = 0.0
    hidden_pp: float = 0.0
    hidden_dp: float = 0.0
    rails: int | None = 1
    fused_attention: bool = False
    causal: bool = False
    efficiency: float | None = None
    dtype: str = "bfloat16"
    attention_again: float = 1
    activation_bytes: float | None = None
    gather_ahead: bool = False
    early_stop: bool = False
    pipelined_tp: float = 0.0
    contention: float = 0.0
    link_efficiency: float = 1.0
    call_s: float = 0.0
    gathered_input_bytes: float | None = None
    dispatch: str = "experts"
    attention_efficiency: float | None = None
    memory_efficiency: float = 1.0
    kernels: Kernels = OWN_COUNT
    logit_bytes: float = 4
    fragmentation: float = 0.0
    library_bytes: float = 0.0
    operand_bytes: float | None = None
    host_bytes_per_s: float = 25e9

    def __post_init__(self):
        for what in [field.name for field in fields(self) if field.name.startswith("hidden_")] + ["pipelined_tp"]:
            require_number(what, getattr(self, what))
            if not 0 <= getattr(self, what) <= 1:
                raise BadValue(f"{what} is a share, from 0 (nothing hidden) to 1; got {getattr(self, what)}")
        if self.rails is not None:
            require_count("rails", self.rails)
        require_number("attention_again", self.attention_again)
        if self.attention_again < 0:
            raise BadValue(f"attention_again counts passes, from 0; got {self.attention_again}")
        require_flag("fused_attention", self.fused_attention)
        require_flag("causal", self.causal)
        require_flag("gather_ahead", self.gather_ahead)
        require_flag("early_stop", self.early_stop)
        for what in ("efficiency", "attention_efficiency", "memory_efficiency", "link_efficiency"):
            if getattr(self, what) is not None:
                require_positive(what, getattr(self, what))
                if getattr(self, what) > 1:
                    raise BadValue(f"{what} is a share of the peak, at most 1; got {getattr(self, what)}")
        require_positive("host_bytes_per_s", self.host_bytes_per_s)
        for what in ("activation_bytes", "operand_bytes", "gathered_input_bytes"):
            if getattr(self, what) is not None:
                require_positive(what, getattr(self, what))
        for what in ("contention", "call_s", "logit_bytes", "fragmentation", "library_bytes"):
            _not_negative(what, getattr(self, what))
        require_name("dispatch", self.dispatch, DISPATCH)
        require_kind("kernels", self.kernels, Kernels)

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
        return self.activation_bytes or max(self.product_bytes, 2)

    @property
    def product_bytes(self) -> int:
        """Bytes of an operand of a product."""
        return getattr(torch, self.dtype).itemsize

    @property
    def of_memory(self) -> dict[str, Any]:
        """What memory.device_memory and memory_by_stage take of them."""
        return {name: getattr(self, name) for name in ("fused_attention", "number_bytes", "logit_bytes", "fragmentation",
                                                       "library_bytes", "operand_bytes")}

    @property
    def of_traffic(self) -> dict[str, Any]:
        """What traffic.step_traffic takes of them."""
        return {name: getattr(self, name) for name in ("number_bytes", "dispatch", "gathered_input_bytes")}

    def slowdowns(self, cluster: Cluster) -> tuple[float, float]:
        """How many times as long, per FLOP, as products the attention core and the logits take.

        Both stay in 16 bits where products have 8; the core may have an efficiency of its own.
        """
        sixteen = 1.0
        if self.product_bytes < 2:
            flops = cluster.device.flops
            sixteen = self.peak(cluster) / flops.get("bfloat16", flops.get("float16", self.peak(cluster)))
        products = self.efficiency or cluster.device.efficiency
        return sixteen * products / (self.attention_efficiency or products), sixteen


NOTHING_HIDDEN = Assumptions()
# What can be hidden without changing any result: Megatron-LM's and FSDP's overlap at their best.
ALL_HIDDEN = Assumptions(hidden_tp=1, hidden_cp=1, hidden_ep=1, hidden_pp=1, hidden_dp=1, gather_ahead=True)
