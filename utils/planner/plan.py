"""A layout and what it comes to: memory, traffic, time, MFU, whether it fits; all explained, shown as one table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from utils.checking import require_count, require_flag, require_kind, require_number
from utils.costs.tables import read_table
from utils.deadlocks.errors import BadValue
from utils.figures.tables import Column, Table
from utils.planner import budget
from utils.planner.assumptions import NOTHING_HIDDEN, Assumptions
from utils.planner.conventions import MEGATRON_18, StateBytes, relative_bubble, state_named
from utils.planner.explained import Explained, explain, given
from utils.planner.export import plan_as_dict
from utils.planner.flows import ORDER, Traffic, require_order
from utils.planner.frameworks import Framework, as_trained, assumptions_for, framework_named, usual_framework
from utils.planner.layout import Layout, reasons_against
from utils.planner.memory import device_memory, in_flight, memory_by_stage, offloaded_bytes
from utils.planner.published import shape_of
from utils.planner.shape import ModelShape
from utils.planner.times import days_for_tokens, step_time
from utils.planner.traffic import step_traffic
from utils.planner.utilization import mfu, utilization
from utils.planner.work import last_products
from utils.simulation.cluster import Cluster
from utils.simulation.clusters import cluster_named

MOST_TOKENS = 2 ** 32  # in a step; whoever asks for more has given tokens for sequences


@dataclass(frozen=True)
class Plan:
    """A layout that can run, and its figures; each is computed when first asked for and explains itself (`.text`).

    usable: the share of the device's memory that may be planned for; the rest is for what memory.py leaves out. framework:
    by whose ways the assumptions were chosen; "" if by nobody's.
    """

    shape: ModelShape
    layout: Layout
    cluster: Cluster
    global_batch: int
    state: StateBytes
    assumptions: Assumptions
    usable: float
    dropout: bool
    order: Sequence[str]
    framework: str = ""

    @cached_property
    def memory(self) -> Explained:
        """Bytes on the fullest device, by category."""
        return device_memory(self.shape, self.layout, self.global_batch, self.state, self.dropout,
                             **self.assumptions.of_memory)

    @cached_property
    def limit(self) -> Explained:
        """Bytes that may be used on a device."""
        memory_bytes = self.cluster.device.memory_bytes
        return explain("usable memory", "bytes", "usable*memory", usable=self.usable, memory=memory_bytes)

    @property
    def fits(self) -> bool:
        """Whether the fullest device has room for it."""
        return self.memory <= self.limit

    @cached_property
    def traffic(self) -> Traffic:
        """What each device sends in a step."""
        return step_traffic(self.shape, self.layout, self.global_batch, self.state, self.cluster.devices_per_node,
                            self.order, **self.assumptions.of_traffic)

    @cached_property
    def time(self) -> Explained:
        """Seconds of a step, by what they are spent on."""
        return step_time(self.shape, self.layout, self.cluster, self.global_batch, self.state, self.traffic,
                         self.assumptions, self.host_bytes)

    @cached_property
    def host_bytes(self) -> float:
        """What a device sends to its host in a step: offloaded activations."""
        if not self.layout.offload_layers:
            return 0.0
        assumed = self.assumptions
        return offloaded_bytes(self.shape, self.layout, self.micro_batches, self.dropout, assumed.fused_attention,
                               assumed.number_bytes, assumed.operand_bytes)

    @cached_property
    def off(self) -> Explained:
        """How far planned seconds of the nearest measured steps were off, in the mean: the error bar of `time`, a share.

        Nearest: on the same device by the same framework; else on the same device; else all. Each was left out of the fit
        that it was planned with. Without a framework nothing of the kind is known: nan.
        """
        rows = read_table("planned_errors") if self.framework else []
        same_device = [row for row in rows if row["device"] == self.cluster.device.name]
        own = [row for row in same_device if row["framework"] == self.framework]
        nearest = own or same_device or rows
        steps = sum(row["steps"] for row in nearest)
        mean = sum(row["steps"] * row["mean_error"] for row in nearest) / steps if steps else float("nan")
        of = self.framework if own else "other frameworks"
        where = f"on {self.cluster.device.name}" if same_device else "on other devices"
        return given(mean, "share", f"as {steps} measured steps of {of} {where} were off in the mean", "planned_errors.csv")

    @property
    def times(self) -> dict[str, float]:
        """The parts of `time` as plain seconds."""
        return {part.name: float(part) for part in self.time.parts}

    @cached_property
    def model_flops(self) -> Explained:
        """FLOPs that the model needs in a step."""
        return self.shape.step_flops(self.global_batch, self.assumptions.causal)

    @cached_property
    def hardware_flops(self) -> Explained:
        """FLOPs that the devices do in a step, recomputation included: of some layers only, or without each one's end."""
        whole = self.shape.hardware_flops(self.global_batch, self.layout.recompute, self.assumptions.causal,
                                          self.assumptions.attention_again)
        share = self.layout.recomputed_share(self.shape.layers)
        skipped = last_products(self.shape, self.global_batch) if self.stops_early else 0
        if share == 1 and not skipped:
            return whole
        return explain("hardware FLOPs of a step", "FLOP", "model + share*(whole - model - skipped)", model=self.model_flops,
                       share=share, whole=whole, skipped=skipped)

    @property
    def stops_early(self) -> bool:
        return self.assumptions.early_stop and self.layout.recompute == "full"

    @cached_property
    def mfu(self) -> Explained:
        """Model FLOPs per second, as a share of all devices' peak."""
        return mfu(self.shape, self.global_batch, float(self.time), self.layout.devices, self.peak_flops,
                   self.assumptions.causal)

    @cached_property
    def hfu(self) -> Explained:
        """Hardware FLOPs per second, as a share of all devices' peak."""
        return utilization(self.hardware_flops, float(self.time), self.layout.devices, self.peak_flops, "HFU")

    @property
    def peak_flops(self) -> float:
        """A device's peak for the dtype that is assumed."""
        return self.assumptions.peak(self.cluster)

    def bubble(self, relative_to: str = "ideal") -> Explained:
        """Idle time of the pipeline, relative to "ideal" (time without it) or "total".  Raises: ValueError for another."""
        bubble = self.times.get("bubble", 0.0)
        working = ("compute", "elementwise", "TP exposed", "CP exposed", "EP exposed", "offload exposed")
        return relative_bubble(bubble, sum(self.times.get(part, 0.0) for part in working), relative_to)

    def days(self, tokens: float) -> Explained:
        """Days to train on so many tokens."""
        return days_for_tokens(tokens, self.global_batch * self.shape.sequence, float(self.time))

    @cached_property
    def micro_batches(self) -> int:
        """Micro-batches a step."""
        return self.layout.micro_batches(self.global_batch)

    @property
    def table(self) -> Table:
        """Every figure with its formula, a row each."""
        flying = in_flight(self.layout, self.micro_batches)
        chosen = [*self.memory.parts, self.memory, self.limit, flying, self.traffic.inside, self.traffic.between,
                  self.model_flops, self.hardware_flops, *self.time.parts, self.time, self.bubble(), self.mfu, self.hfu,
                  self.tokens_per_s_device]
        rows = [{"what": number.name, "value": number, "unit": number.unit, "formula": number.steps} for number in chosen]
        return Table(rows, [Column("what", "figure"), Column("value", align="right", show=str), Column("formula")])

    @property
    def heading(self) -> str:
        """Model, devices, layout, and whether it fits, as a line."""
        verdict = "fits" if self.fits else f"does not fit: {self.memory}, usable {self.limit}"
        devices = f"{self.layout.devices:,} × {self.cluster.device.name}"
        batch = f"{self.global_batch:,} sequences of {self.shape.sequence:,} tokens a step"
        said = f"{self.shape.name} on {devices}, {batch}: {self.layout}: {verdict}"
        return said + f"; {self.time} ± {100 * self.off:.0f} %, {self.off.name}" if self.framework else said

    def __repr__(self) -> str:
        return f"{self.heading}\n{self.table}"

    def _repr_html_(self) -> str:
        return f"<p>{self.heading}</p>{self.table._repr_html_()}"

    @cached_property
    def memory_by_stage(self) -> list[Explained]:
        """Bytes on a device at each place of the pipeline, by category."""
        return memory_by_stage(self.shape, self.layout, self.global_batch, self.state, self.dropout,
                               **self.assumptions.of_memory)

    @cached_property
    def tokens_per_s_device(self) -> Explained:
        """Tokens that each device trains on in a second."""
        return budget.tokens_per_s_device(self.global_batch, self.shape.sequence, float(self.time), self.layout.devices)

    def device_hours(self, tokens: float, goodput: float = 1.0) -> Explained:
        """Hours of one device for so many tokens. goodput: share of the time that training goes on, if devices fail."""
        return budget.device_hours(tokens, float(self.tokens_per_s_device), goodput)

    def money(self, tokens: float, price_per_device_hour: float, goodput: float = 1.0, currency: str = "$") -> Explained:
        """The price of training on so many tokens."""
        return budget.money(self.device_hours(tokens, goodput), price_per_device_hour, currency)

    def energy(self, tokens: float, watts_per_device: float, pue: float = 1.0, goodput: float = 1.0) -> Explained:
        """Kilowatt-hours of training on so many tokens. pue: what the building draws for each watt of its computers."""
        return budget.energy(self.device_hours(tokens, goodput), watts_per_device, pue)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers with units and formulas, as `to_json` writes them."""
        return plan_as_dict(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """The plan as JSON, written to `path` if given.  Raises: OSError if the file cannot be written."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write the plan as one HTML page to hand to somebody, and return its path; arguments as report.report_page has."""
        from utils.planner.report import report_page

        Path(path).write_text(report_page(self, **options), encoding="utf-8")
        return Path(path)


def plan(shape: ModelShape | str, layout: Layout, cluster: Cluster | str, global_batch: int,
         state: StateBytes | str | None = None, assumptions: Assumptions | None = None, usable: float = 1.0,
         dropout: bool | None = None, order: Sequence[str] = ORDER, framework: str | Framework | None = None,
         dtype: str = "bfloat16") -> Plan:
    """What a layout of a model on a cluster comes to, for a batch of so many sequences.

    shape, cluster: your own, or a ready one's name. usable: share of the memory that may be used. order: which axis fills a
    node first. framework: one of frameworks.FRAMEWORKS; it says what state and assumptions are and what the layout's
    "selective" recomputes, wherever they are not given; dtype: then that of products.
    With neither framework nor assumptions a model of today (ModelShape.is_modern) is planned as the framework trains it
    that such layouts usually run in; one of 2020 as papers of 2020 count: nothing hidden, attention and its dropout not
    fused. state: bytes a parameter, or an optimizer's name (conventions.OPTIMIZERS); Megatron's 18 if nothing else follows.
    dropout: its masks are kept; None: only of 2020's. Raises: TypeError, ValueError with every reason why the layout cannot
    run; that it does not fit is no error (Plan.fits).
    """
    require_kind("layout", layout, Layout)
    shape = shape_of(shape)
    framework, state, assumptions, dropout = chosen(shape, layout, cluster, state, assumptions, dropout, framework, dtype)
    if framework:
        layout = as_trained(framework, layout)
    cluster = checked(shape, cluster, global_batch, state, assumptions, usable, dropout, layout.devices)
    require_order(order)
    reasons = reasons_against(layout, shape, layout.devices, global_batch, cluster.devices_per_node)
    if reasons:
        raise BadValue(f"{shape.name} cannot run as {layout}: " + " ".join(reasons))
    return Plan(shape, layout, cluster, global_batch, state, assumptions, usable, dropout, tuple(order), framework)


def chosen(shape: ModelShape, layout: Layout, cluster: Cluster | str, state: StateBytes | str | None,
           assumptions: Assumptions | None, dropout: bool | None, framework: str | Framework | None,
           dtype: str) -> tuple[str, StateBytes, Assumptions, bool]:
    """(the framework's name or "", state, assumptions, dropout), chosen as plan says where they are None."""
    require_kind("shape", shape, ModelShape)
    cluster = cluster if isinstance(cluster, Cluster) else cluster_named(cluster)
    if framework is None and assumptions is None and shape.is_modern:
        framework = usual_framework(layout, cluster)
    dropout = framework is None and not shape.is_modern if dropout is None else dropout
    if framework is None:
        return "", state_named(state or MEGATRON_18), assumptions or NOTHING_HIDDEN, dropout
    state = None if state is None else state_named(state)
    framework = framework_named(framework)
    assumptions = assumptions or assumptions_for(framework, shape, cluster, dtype)
    return framework.name, state or framework.state, assumptions, dropout


def checked_cluster(shape: ModelShape, cluster: Cluster | str, state: StateBytes, assumptions: Assumptions) -> Cluster:
    """The cluster, if it and what it is asked about can be.  Raises: TypeError, ValueError."""
    require_kind("shape", shape, ModelShape)
    require_kind("state", state, StateBytes)
    require_kind("assumptions", assumptions, Assumptions)
    cluster = cluster if isinstance(cluster, Cluster) else cluster_named(cluster)
    assumptions.peak(cluster)
    return cluster


def checked(shape: ModelShape, cluster: Cluster | str, global_batch: int, state: StateBytes, assumptions: Assumptions,
            usable: float, dropout: bool, devices: int) -> Cluster:
    """The cluster, if all can be what it says.  Raises: TypeError, ValueError."""
    cluster = checked_cluster(shape, cluster, state, assumptions)
    require_flag("dropout", dropout)
    require_count("global_batch", global_batch)
    if global_batch * shape.sequence > MOST_TOKENS:
        raise BadValue(f"global_batch counts sequences, not tokens: {global_batch:,} sequences of {shape.sequence:,} tokens "
                       f"are {global_batch * shape.sequence:.3g} tokens a step")
    require_count("devices", devices)
    require_number("usable", usable)
    if not 0 < usable <= 1:
        raise BadValue(f"usable is a share of the device's memory, above 0 and at most 1; got {usable}")
    if devices > cluster.n_devices:
        raise BadValue(f"cluster {cluster.name!r} has {cluster.n_devices:,} devices, and {devices:,} are asked for; "
                       "describe a larger one with dataclasses.replace(cluster, n_devices=...)")
    return cluster.slice(devices)


def comparison(plans: Sequence[Plan]) -> Table:
    """Plans side by side, a row each; models, sequences, clusters, batches only where they differ.  Raises: TypeError."""
    require_kind("plans", plans, Sequence)
    for one in plans:
        require_kind("each of the plans", one, Plan)
    rows = [{"model": one.shape.name, "sequence": one.shape.sequence, "batch": one.global_batch,
             "cluster": f"{one.layout.devices:,} × {one.cluster.name}", "layout": str(one.layout),
             "memory_bytes": float(one.memory), "fits": "yes" if one.fits else "no", "bubble": float(one.bubble()),
             "between_bytes": float(one.traffic.between), "time_s": float(one.time), "mfu": float(one.mfu),
             "tokens_per_s_device": float(one.tokens_per_s_device)} for one in plans]
    differing = [column for column in (Column("model"), Column("sequence", show="{:,}".format), Column("cluster"),
                                       Column("batch", show="{:,}".format)) if len({row[column.key] for row in rows}) > 1]
    return Table(rows, [
        *differing, Column("layout"), Column("memory_bytes", "memory", "GB", show=_giga), Column("fits"),
        Column("bubble", show=_percent), Column("between_bytes", "between nodes", "GB a step", show=_giga),
        Column("time_s", "step", "s", show="{:.2f}".format), Column("mfu", "MFU", show=_percent),
        Column("tokens_per_s_device", "tokens/s/device", show="{:,.0f}".format)])


def _giga(size: float) -> str:
    return f"{float(size) / 1e9:.1f}"


def _percent(share: float) -> str:
    return f"{100 * float(share):.1f} %"
