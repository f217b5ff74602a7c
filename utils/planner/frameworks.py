"""What training frameworks keep, move, hide and recompute, as assumptions; how fast devices are with their kernels."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from utils.checking import require_kind, require_name
from utils.costs.tables import read_table
from utils.planner.assumptions import Assumptions, Kernels
from utils.planner.conventions import FSDP_16, MEGATRON_18, XLA_14, ZERO_16, StateBytes
from utils.planner.layout import RECOMPUTE, Layout
from utils.planner.shape import ModelShape
from utils.simulation.cluster import Cluster, Device

# Norms and residual sums as a compiler joins them, as a library does, and one by one. Each number is read or written once by
# each kernel that needs it: two norms with their residual sums read and write 8 numbers of width h if they are one kernel
# each; 16 if sum, cast, mean, scale and so on are apart.
COMPILED = Kernels("joined by a compiler", residual=8, masks=0, activation=1, rotary=2, permuted=6, operands=True,
                   logit_bytes=24, cast_bytes=8)
LIBRARY = Kernels("joined by a library", residual=10, masks=0, activation=1, rotary=2, permuted=6, operands=True,
                  logit_bytes=24, cast_bytes=5)
ONE_BY_ONE = Kernels("one by one", residual=16, masks=0, activation=1.5, rotary=4, permuted=12, operands=True,
                     logit_bytes=24, cast_bytes=8)
HIDDEN = 0.97  # the first layer's gather and the last one's reduction find nothing to hide behind


@dataclass(frozen=True)
class Framework:
    """How a framework trains, where it differs from others.

    state: bytes a parameter. attention: the kernel of its attention core, as in efficiencies.csv. kernels: what its other
    kernels move. logit_bytes: kept for each logit. pipelined_tp, hidden_ep, hidden_tp, early_stop: as in Assumptions.
    zero_stages: those that it has. selective: what its selective recomputation makes again. reshard: whether FSDP beside a
    pipeline gathers for each micro-batch. sequence_parallel: whether tensor parallel always splits what has width h.
    keeps_8_bits: of a product's input, for the backward pass; gathers_8_bits: for tensor parallel. dispatch, fragmentation,
    library_bytes: as in Assumptions. source: where this can be read.
    """

    name: str
    state: StateBytes
    attention: str
    kernels: Kernels
    logit_bytes: float
    pipelined_tp: float = 0.0
    hidden_ep: float = 0.0
    hidden_tp: float = 0.0
    early_stop: bool = False
    zero_stages: tuple[int, ...] = (0, 1, 2, 3)
    selective: str = "selective"
    reshard: bool = True
    sequence_parallel: bool = False
    dispatch: str = "experts"
    keeps_8_bits: bool = False
    gathers_8_bits: bool = False
    fragmentation: float = 0.04
    library_bytes: float = 1.5e9
    source: str = ""

    def keeps_gathered(self, zero: int, pp: int) -> bool:
        """Whether ZeRO-3 gathers weights once a step, and not for each micro-batch: beside a pipeline, some do."""
        return zero == 3 and pp > 1 and not self.reshard


# FSDP as DeepSpeed and llm-foundry have it: fp32 parameters and moments, everything that travels in 16 bits.
FSDP_PURE = StateBytes("16 bytes a parameter, all in fp32, sent in 16 bits", 4, 4, 8, "FSDP's MixedPrecision, PURE", 2, 2)

FRAMEWORKS: Mapping[str, Framework] = {each.name: each for each in (
    Framework("torchtitan", FSDP_16, "FlashAttention-2", COMPILED, logit_bytes=12, selective="products", reshard=False,
              gathers_8_bits=True, early_stop=True, zero_stages=(0, 3),
              source="torchtitan (2410.06511): FSDP2, torch.compile, fp32 reduction, selective checkpointing of operations"),
    Framework("FSDP", FSDP_16, "FlashAttention-2", ONE_BY_ONE, logit_bytes=12, early_stop=True,
              source="torch's fully_shard, fp32 reduction, no compiler"),
    Framework("llm-foundry", FSDP_PURE, "FlashAttention, Triton", ONE_BY_ONE, logit_bytes=6, early_stop=True,
              source="llm-foundry's table of throughputs: FSDP, mixed precision PURE (loss too), no compiler"),
    Framework("Megatron-LM", MEGATRON_18, "FlashAttention-2", LIBRARY, logit_bytes=10, keeps_8_bits=True, hidden_tp=1,
              zero_stages=(0, 1),
              source="Megatron-LM: distributed optimizer, gradients in fp32, fused norms and softmax"),
    Framework("Megatron-Bridge", ZERO_16, "cuDNN", LIBRARY, logit_bytes=10, pipelined_tp=0.8, dispatch="nodes",
              keeps_8_bits=True, gathers_8_bits=True, hidden_tp=1, zero_stages=(0, 1, 3),
              source="NVIDIA's recipes: Transformer Engine, tensor-parallel overlap, DeepEP, gradients in bfloat16"),
    Framework("DeepSeek", MEGATRON_18, "cuDNN", LIBRARY, logit_bytes=10, hidden_ep=HIDDEN, dispatch="nodes",
              zero_stages=(0, 1),
              keeps_8_bits=True, source="DeepSeek-V3 (2412.19437), section 3.2: DualPipe hides both all-to-all"),
    Framework("MaxText", XLA_14, "Splash", COMPILED, logit_bytes=4, pipelined_tp=0.8, selective="elementwise",
              zero_stages=(0, 3), sequence_parallel=True, fragmentation=0, library_bytes=0,
              source="MaxText: XLA's collective matmul, planned memory, fused loss; Splash attention, remat policy minimal"),
    Framework("DeepSpeed", ZERO_16, "FlashAttention-2", ONE_BY_ONE, logit_bytes=12, source="DeepSpeed: ZeRO 1 to 3"),
    Framework("nanotron", MEGATRON_18, "FlashAttention-2", LIBRARY, logit_bytes=10,
              source="nanotron: fp32 gradients, ZeRO-1"),
)}
ALIASES = {"NeMo": "Megatron-Bridge", "Megatron Bridge": "Megatron-Bridge", "PyTorch": "FSDP", "FSDP2": "FSDP",
           "Composer": "llm-foundry", "MosaicML": "llm-foundry", "Megatron": "Megatron-LM", "Megatron-Core": "Megatron-LM",
           "Megatron-DeepSpeed": "Megatron-LM", "GPT-NeoX": "Megatron-LM", "MegaScale": "Megatron-LM",
           "SimuMax": "Megatron-LM", "papers": "Megatron-LM"}
CONTENTION = 0.15
REACHED_OF_LINKS = 0.8
REACHED_OF_MEMORY = 0.85
CALL_S = 30e-6  # allreduce_a100_n2_n4.csv: 44 µs for 1 MiB on two, of which the link needs 5


def framework_named(name: str | Framework) -> Framework:
    """A framework by its name.  Raises: ValueError with the nearest name."""
    if isinstance(name, Framework):
        return name
    known = {each.lower(): each for each in (*FRAMEWORKS, *ALIASES)}
    name = known.get(str(name).lower(), name)
    name = ALIASES.get(name, name)
    require_name("framework", name, FRAMEWORKS)
    return FRAMEWORKS[name]


def recompute_of(name: str) -> tuple[str, ...]:
    """The ways to recompute that a framework has; "": those of papers."""
    return tuple(FRAMEWORKS[name].selective if way == "selective" else way for way in RECOMPUTE) if name else RECOMPUTE


def usual_framework(layout: Layout, cluster: Cluster) -> Framework:
    """What such a layout usually runs in: MaxText on TPUs, torchtitan with ZeRO-3, else Megatron-LM."""
    if cluster.device.library == "XLA":
        return FRAMEWORKS["MaxText"]
    return FRAMEWORKS["torchtitan" if layout.zero == 3 else "Megatron-LM"]


def efficiencies(device: Device) -> dict[str, float]:
    """Shares of the peak by kind of work, as efficiencies.csv has them: "products", and each kernel of the attention core.

    A device that has no rows: its own efficiency for products, and half of it for every attention core.
    """
    return _shares().get(device.name) or {"products": device.efficiency}


@functools.cache
def _shares() -> dict[str, dict[str, float]]:
    """device → kind of work → share of the peak. Read once: every plan of a framework asks."""
    shares: dict[str, dict[str, float]] = {}
    for row in read_table("efficiencies"):
        shares.setdefault(row["device"], {})[row["kind"]] = row["share"]
    return shares


def assumptions_for(framework: str | Framework, shape: ModelShape, cluster: Cluster,
                    dtype: str = "bfloat16") -> Assumptions:
    """What holds when this framework trains this model on these devices.  Raises: ValueError for an unknown framework."""
    framework = framework_named(framework)
    require_kind("shape", shape, ModelShape)
    known = efficiencies(cluster.device)
    products, eight = known["products"], dtype.startswith("float8")
    return Assumptions(
        hidden_tp=framework.hidden_tp, hidden_cp=1, hidden_ep=framework.hidden_ep, hidden_pp=1, hidden_dp=HIDDEN,
        gather_ahead=True, rails=None, early_stop=framework.early_stop, fused_attention=True, causal=True,
        efficiency=products, dtype=dtype, pipelined_tp=framework.pipelined_tp,
        contention=CONTENTION, link_efficiency=REACHED_OF_LINKS, dispatch=framework.dispatch, call_s=CALL_S,
        attention_efficiency=known.get(framework.attention, products / 2), memory_efficiency=REACHED_OF_MEMORY,
        kernels=framework.kernels, logit_bytes=framework.logit_bytes, fragmentation=framework.fragmentation,
        library_bytes=framework.library_bytes, operand_bytes=1 if framework.keeps_8_bits and eight else None,
        gathered_input_bytes=1 if framework.gathers_8_bits and eight else None)


def as_trained(framework: str | Framework, layout: Layout) -> Layout:
    """The layout in the planner's words: what the framework calls selective, and whether it gathers for each micro-batch."""
    framework = framework_named(framework)
    if layout.recompute == "selective":
        layout = replace(layout, recompute=framework.selective)
    if framework.sequence_parallel and layout.tp > 1:
        layout = replace(layout, sequence_parallel=True)
    return replace(layout, reshard=False) if framework.keeps_gathered(layout.zero, layout.pp) else layout
