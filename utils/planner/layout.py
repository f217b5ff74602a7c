"""How a model is laid out over devices, and why a layout cannot work."""

from dataclasses import dataclass

from utils.checking import require_count, require_flag, require_kind, require_name
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.shape import ModelShape

SCHEDULES = ("GPipe", "1F1B", "interleaved", "ZB-H1", "ZB-H2")
RECOMPUTE = ("none", "selective", "full")  # what a search tries
WAYS_TO_RECOMPUTE = (*RECOMPUTE, "products", "elementwise")
ZERO_STAGES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism: `devices` = dp·tp·pp·cp. Experts are split over ep of the dp·cp ranks with the same layers.

    expert_tp: among how many of the tp ranks one expert is split (None: all of them); with fewer, ep is of
    dp·cp·tp/expert_tp ranks. across_nodes: tensor-parallel groups may be larger than a node, at the price of its links.

    zero: stage 0–3 (1 is Megatron's distributed optimizer). shard: how many of the dp·cp ranks share one copy of what ZeRO
    shards, neighbours; the others have copies of it (FSDP's hybrid sharding, MiCS); None: all of them. chunks: model chunks
    a device ("v"), above 1 for the interleaved schedule only. micro_batch: sequences at once. recompute: none, selective
    (attention core), products (every second product with weights, and what lies between), elementwise (all but products
    with weights) or full (every layer); recompute_layers: of so many layers of each device only (None: all). reshard: with
    ZeRO-3, whether gathered parameters are let go after each use; False: they stay from the first micro-batch to the last,
    and so do whole gradients, as FSDP does beside a pipeline. uneven_stages: stages may differ by a layer, and the first
    and the last may have none, as Llama 3's; memory and time are those of the fullest and the slowest. offload_layers: what
    so many layers of each device keep goes to the host's memory, and comes back before their backward pass.
    Raises: TypeError, ValueError for what can never work, whatever the model.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    zero: int = 0
    shard: int | None = None
    sequence_parallel: bool = False
    schedule: str = "1F1B"
    chunks: int = 1
    micro_batch: int = 1
    recompute: str = "none"
    uneven_stages: bool = False
    recompute_layers: int | None = None
    reshard: bool = True
    expert_tp: int | None = None
    across_nodes: bool = False
    offload_layers: int = 0

    def __post_init__(self):
        for what in ("dp", "tp", "pp", "cp", "ep", "chunks", "micro_batch"):
            require_count(what, getattr(self, what))
        if isinstance(self.zero, str):
            raise BadType(f"zero is the number of a stage, from 0 to 3 (FSDP is 3); got {self.zero!r}")
        for what in ("zero", "offload_layers"):
            require_count(what, getattr(self, what), least=0)
        if self.zero not in ZERO_STAGES:
            raise BadValue(f"zero is a stage from 0 to 3; got {self.zero}")
        if self.shard is not None:
            require_count("shard", self.shard)
            if not self.zero:
                raise BadValue(f"shard={self.shard} says over how many ranks ZeRO shards, and zero is 0: give 1 to 3")
        if self.recompute_layers is not None:
            require_count("recompute_layers", self.recompute_layers)
            if self.recompute == "none":
                raise BadValue(f"recompute_layers={self.recompute_layers} are recomputed in no way: recompute is none")
        if not self.reshard and self.zero != 3:
            raise BadValue(f"reshard=False concerns what ZeRO-3 gathers, and zero is {self.zero}")
        if self.expert_tp is not None:
            require_count("expert_tp", self.expert_tp)
            if self.tp % self.expert_tp:
                raise BadValue(f"expert_tp {self.expert_tp} does not divide tp {self.tp}, whose ranks share an expert")
        for what in ("sequence_parallel", "uneven_stages", "reshard", "across_nodes"):
            require_flag(what, getattr(self, what))
        require_name("schedule", self.schedule, SCHEDULES)
        require_name("way to recompute", self.recompute, WAYS_TO_RECOMPUTE)

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def model_parallel(self) -> int:
        """How many devices hold one copy of the model without ZeRO and experts apart: tp·pp."""
        return self.tp * self.pp

    @property
    def shard_ranks(self) -> int:
        """Ranks that share one copy of what ZeRO shards; 1 without ZeRO."""
        return (self.shard or self.dp * self.cp) if self.zero else 1

    @property
    def expert_spread(self) -> int:
        """Among how many groups of a layer's tp ranks experts are dealt out: tp/expert_tp."""
        return self.tp // (self.expert_tp or self.tp)

    def expert_ranks(self, ranks: int) -> int:
        """Of so many ranks that share a copy of the state, how many share one of the same experts' state; at least 1."""
        return max(ranks * self.expert_spread // self.ep, 1)

    def recomputed_share(self, layers: int) -> float:
        """Share of a model's so many layers that are recomputed."""
        return 1.0 if self.recompute_layers is None else min(self.recompute_layers * self.pp / layers, 1.0)

    def micro_batches(self, global_batch: int) -> int:
        """Micro-batches that a pipeline runs in a step ("m") for a batch of so many sequences, rounded down."""
        return global_batch // (self.dp * self.micro_batch)

    def __str__(self) -> str:
        """"DP 64 × TP 8 × PP 16, ZeRO-1, SP, interleaved ×2, micro-batch 1, selective recomputation"."""
        degrees = " × ".join(f"{axis.upper()} {getattr(self, axis)}" for axis in ("dp", "tp", "pp", "cp")
                             if getattr(self, axis) > 1 or axis == "dp")
        of = "" if self.recompute_layers is None else f" of {self.recompute_layers} layers"
        sharded = f"ZeRO-{self.zero}" + f" over {self.shard}" * (self.shard is not None)
        experts = f"EP {self.ep}" + f" (TP {self.expert_tp})" * (self.expert_spread > 1)
        extras = [experts * (self.ep > 1), sharded * (self.zero > 0), "SP" * self.sequence_parallel,
                  (self.schedule + f" ×{self.chunks}" * (self.chunks > 1)) * (self.pp > 1),
                  f"micro-batch {self.micro_batch}", f"{self.recompute} recomputation{of}" * (self.recompute != "none"),
                  f"offload of {self.offload_layers} layers" * (self.offload_layers > 0)]
        return ", ".join([degrees, *filter(None, extras)])


def reasons_against(layout: Layout, shape: ModelShape, devices: int | None = None, global_batch: int | None = None,
                    devices_per_node: int | None = None) -> list[str]:
    """Why this layout cannot run, a sentence each; an empty list if nothing speaks against it.

    devices, global_batch (sequences a step), devices_per_node: None leaves out what depends on them. A tensor-parallel group
    that does not fit into a node counts as a reason, because its all-reduces stand in the way of every layer; not so where
    a node is one device, as on a torus.
    Raises: TypeError, ValueError if one of the three is not a whole number from 1.
    """
    require_kind("layout", layout, Layout)
    require_kind("shape", shape, ModelShape)
    for what, count in {"devices": devices, "global_batch": global_batch, "devices_per_node": devices_per_node}.items():
        if count is not None:
            require_count(what, count)
    return [*_devices(layout, devices, devices_per_node), *_shards(layout), *_widths(layout, shape), *_stages(layout, shape),
            *_experts(layout, shape), *_sequence(layout, shape), *_batch(layout, global_batch)]


def _devices(layout: Layout, devices: int | None, devices_per_node: int | None) -> list[str]:
    reasons = []
    if devices is not None and layout.devices != devices:
        product = " · ".join(f"{axis} {getattr(layout, axis)}" for axis in ("dp", "tp", "pp", "cp"))
        reasons.append(f"{product} = {layout.devices:,} devices, not {devices:,}.")
    if devices_per_node not in (None, 1) and devices_per_node % layout.tp and not layout.across_nodes:
        what = "do not fit into" if layout.tp > devices_per_node else "would straddle"
        reasons.append(f"Tensor-parallel groups of {layout.tp} {what} nodes of {devices_per_node} devices.")
    return reasons


def _shards(layout: Layout) -> list[str]:
    """What ZeRO shards over a part of the ranks."""
    if layout.shard is None:
        return []
    reasons = []
    if layout.dp * layout.cp % layout.shard:
        reasons.append(f"shard {layout.shard} does not divide dp·cp = {layout.dp * layout.cp}, the ranks that have copies.")
    if layout.shard % layout.ep:
        reasons.append(f"shard {layout.shard} is no multiple of ep {layout.ep}: a copy has all experts.")
    return reasons


def _widths(layout: Layout, shape: ModelShape) -> list[str]:
    """What tensor parallel must divide."""
    sizes = {"attention heads": shape.heads, "FFN columns": shape.ffn_size if shape.layers > shape.moe_layers else 0,
             "columns of an expert": shape.expert_size if shape.experts and layout.expert_spread == 1 else 0}
    reasons = [f"{count:,} {what} cannot be split evenly over tp {layout.tp}." for what, count in sizes.items()
               if count % layout.tp]
    if shape.experts and shape.expert_size % (layout.expert_tp or 1):
        reasons.append(f"{shape.expert_size:,} columns of an expert cannot be split evenly over expert_tp "
                       f"{layout.expert_tp}.")
    groups = shape.kv_groups
    if groups % layout.tp and layout.tp % groups:
        reasons.append(f"{groups} key-value heads can neither be split over tp {layout.tp} nor copied evenly to its ranks.")
    return reasons


def _stages(layout: Layout, shape: ModelShape) -> list[str]:
    reasons, stages = [], layout.pp * layout.chunks
    ends = 2 if layout.uneven_stages and stages > 2 else 0  # stages of the embedding and the head alone
    if stages > shape.layers + ends:
        reasons.append(f"{shape.layers} layers do not fill {stages} stages (pp {layout.pp} · chunks {layout.chunks}).")
    elif shape.layers % stages and not layout.uneven_stages:
        reasons.append(f"{shape.layers} layers cannot be split evenly over {stages} stages "
                       f"(pp {layout.pp} · chunks {layout.chunks}); uneven_stages=True allows it.")
    if layout.chunks > 1 and layout.schedule != "interleaved":
        reasons.append(f"{layout.chunks} chunks a device need the interleaved schedule, not {layout.schedule}.")
    if layout.schedule == "interleaved" and (layout.pp == 1 or layout.chunks == 1):
        reasons.append("The interleaved schedule needs pp and chunks of at least 2.")
    if layout.offload_layers > (own := -(-shape.layers // layout.pp)):
        reasons.append(f"A device has {own} layers, and offload_layers is {layout.offload_layers}.")
    return reasons


def _experts(layout: Layout, shape: ModelShape) -> list[str]:
    if layout.ep == 1:
        return []
    if not shape.experts:
        return [f"{shape.name} has no experts to split over ep {layout.ep}."]
    reasons = []
    if shape.experts % layout.ep:
        reasons.append(f"{shape.experts} experts cannot be split evenly over ep {layout.ep}.")
    ranks = layout.dp * layout.cp * layout.expert_spread
    if ranks % layout.ep:
        named = "dp·cp" if layout.expert_spread == 1 else "dp·cp·tp/expert_tp"
        advice = " (expert_tp=1 spreads them over tensor-parallel ranks, too)" * (layout.tp > 1 and not layout.expert_tp)
        reasons.append(f"ep {layout.ep} does not divide {named} = {ranks}, the ranks that experts go to{advice}.")
    return reasons


def _sequence(layout: Layout, shape: ModelShape) -> list[str]:
    pieces = layout.cp * (layout.tp if layout.sequence_parallel else 1)
    if shape.sequence % pieces:
        split = f"cp {layout.cp}" + f" · tp {layout.tp} (sequence parallel)" * layout.sequence_parallel
        return [f"A sequence of {shape.sequence:,} tokens cannot be split evenly over {split}."]
    return []


def _batch(layout: Layout, global_batch: int | None) -> list[str]:
    if global_batch is None:
        return []
    reasons, slots = [], layout.dp * layout.micro_batch
    if global_batch % slots:
        reasons.append(f"A batch of {global_batch:,} sequences is not a multiple of dp {layout.dp} · micro-batch "
                       f"{layout.micro_batch} = {slots:,}.")
    elif layout.schedule == "interleaved" and layout.micro_batches(global_batch) % layout.pp:
        reasons.append(f"The interleaved schedule needs micro-batches in multiples of pp {layout.pp}; a batch of "
                       f"{global_batch:,} gives {layout.micro_batches(global_batch)}.")
    return reasons
