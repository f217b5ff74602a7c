"""Published training steps beside the planner's: rows of a table in, seconds and memory planned and printed out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import Any

from utils.checking import require_count, require_positive
from utils.costs.tables import parsed, read_table
from utils.deadlocks.errors import BadValue
from utils.figures.tables import Column, Table
from utils.planner.frameworks import framework_named, usual_framework
from utils.planner.layout import Layout
from utils.planner.plan import Plan, plan
from utils.planner.published import MODELS
from utils.planner.shape import ModelShape
from utils.simulation.cluster import Cluster
from utils.simulation.clusters import cluster_named

GIB = 2 ** 30


@dataclass(frozen=True)
class PublishedStep:
    """A row of published_steps.csv: what ran, and what was printed. step_s: seconds; memory_bytes: None if not printed."""

    name: str
    framework: str
    shape: ModelShape
    layout: Layout
    cluster: Cluster
    global_batch: int
    dtype: str
    step_s: float
    memory_bytes: float | None

    @cached_property
    def plan(self) -> Plan:
        """What the planner says of it, knowing model, layout, device, dtype and framework."""
        try:
            return plan(self.shape, self.layout, self.cluster, self.global_batch, framework=self.framework, dtype=self.dtype)
        except BadValue as error:
            raise BadValue(f"{self.name}: {error}") from None

    @property
    def error(self) -> float:
        """Planned over printed seconds, less 1."""
        return float(self.plan.time) / self.step_s - 1

    @property
    def memory_error(self) -> float | None:
        """Planned over printed bytes, less 1; None if not printed."""
        return None if self.memory_bytes is None else float(self.plan.memory) / self.memory_bytes - 1


def published_steps(rows: Iterable[Mapping[str, Any]] | None = None) -> list[PublishedStep]:
    """Rows with the columns of published_steps.csv; None: those of that table.

    Raises: ValueError for a row that lacks what a plan needs, by its number and column.
    """
    rows = read_table("published_steps") if rows is None else rows
    return [_step(number, row) for number, row in enumerate(rows, start=1)]


def _step(number: int, row: Mapping[str, Any]) -> PublishedStep:
    row = {key: parsed(value) for key, value in row.items()}
    name = f"row {number}, {row.get('run') or row.get('model')}"
    for what in ("layers", "hidden", "heads", "vocabulary", "sequence", "devices", "global_batch"):
        require_count(f"{name}: {what}", row.get(what))
    require_positive(f"{name}: printed_step_s", row.get("printed_step_s"))
    chunks, zero = row.get("chunks") or 1, row.get("zero") or 0
    dp, tp, cp, ep = (row.get(axis) or 1 for axis in ("dp", "tp", "cp", "ep"))
    expert_tp = row.get("expert_tp") or (1 if dp * cp % ep and dp * cp * tp % ep == 0 else None)
    layout = Layout(dp=dp, tp=tp, pp=row.get("pp") or 1, cp=cp, ep=ep, expert_tp=expert_tp,
                    zero=3 if zero == "FSDP" else zero, micro_batch=row.get("micro_batch") or 1,
                    sequence_parallel=row.get("sequence_parallel") in (True, "True"), chunks=chunks,
                    schedule="interleaved" if chunks > 1 else "1F1B", recompute=row.get("recompute") or "none",
                    uneven_stages=True)
    memory = row.get("printed_memory_GiB")
    cluster = _cluster(name, row)
    try:
        framework = framework_named(row.get("framework") or row.get("source")).name
    except BadValue:  # a table of several, or one that is not known here
        framework = usual_framework(layout, cluster).name
    return PublishedStep(name, framework, _shape(row), layout, cluster, row["global_batch"], row.get("dtype") or "bfloat16",
                         row["printed_step_s"], memory and memory * GIB)


def _shape(row: Mapping[str, Any]) -> ModelShape:
    """The known model of this name with the row's sizes, or a decoder of these sizes: gated if its FFN is not 4·width."""
    sizes = {"layers": row["layers"], "width": row["hidden"], "heads": row["heads"], "vocabulary": row["vocabulary"],
             "sequence": row["sequence"]}
    if row["model"] in MODELS:
        known = MODELS[row["model"]]
        dense = row.get("dense_layers")
        return replace(known, **sizes, dense_layers=min(known.dense_layers if dense is None else dense, row["layers"]))
    gated = bool(row.get("ffn")) and row["ffn"] != 4 * row["hidden"]
    experts = {"experts": row.get("experts") or 0, "experts_per_token": row.get("experts_per_token") or 0,
               "expert_ffn": row.get("expert_ffn") or None}
    wide = experts["experts"] or str(row.get("source")) == "MaxText"  # whose heads have 128 columns, whatever the width is
    head = row.get("head_size") or (max(row["hidden"] // row["heads"], 128) if wide else None)
    return ModelShape(row["model"], **sizes, kv_heads=row.get("kv_heads") or None, ffn=row.get("ffn") or None, gated=gated,
                      biases=False, norm_vectors=1 if gated else 2, tied=False, head_size=head, **experts)


def _cluster(name: str, row: Mapping[str, Any]) -> Cluster:
    """The ready cluster of this name or with this device, as large as the run."""
    try:
        return replace(cluster_named(row.get("device")), n_devices=row["devices"])
    except BadValue as error:
        raise BadValue(f"{name}: {error}") from None


def compared(steps: Sequence[PublishedStep]) -> Table:
    """Printed and planned, a row each."""
    if not steps:
        raise BadValue("there is no row to compare")
    rows = [{"run": step.name, "framework": step.framework, "printed": step.step_s, "planned": float(step.plan.time),
             "error": step.error, "memory": step.memory_bytes and step.memory_bytes / GIB,
             "planned memory": step.memory_bytes and float(step.plan.memory) / GIB, "memory error": step.memory_error}
            for step in steps]
    seconds = "{:.2f}".format
    return Table(rows, [Column("run"), Column("framework"), Column("printed", unit="s", show=seconds),
                        Column("planned", unit="s", show=seconds), Column("error", show=percent),
                        Column("memory", unit="GiB", show=_gib), Column("planned memory", "planned", "GiB", show=_gib),
                        Column("memory error", "error", show=percent)])


def summary(steps: Sequence[PublishedStep]) -> dict[str, float]:
    """Mean and median of how far planned seconds are off, and the share of printed memories that are within a tenth."""
    errors = [abs(step.error) for step in steps]
    memories = [abs(step.memory_error) for step in steps if step.memory_bytes]
    return {"mean": fmean(errors), "median": median(errors),
            "memory within 10 %": fmean([error <= 0.1 for error in memories]) if memories else float("nan")}


def percent(share: float | None) -> str:
    """A share with its sign; nothing for None."""
    return "" if share is None else f"{100 * share:+.1f} %"


def _gib(size: float | None) -> str:
    return "" if size is None else f"{size:.1f}"
