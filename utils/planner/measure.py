"""What one device of this machine reaches, by a bench of about a minute: a cluster that plans and simulations can take.

Measured are products of a transformer's layer, the core of attention, a copy in memory, an operation on next to nothing, and
an all-reduce of two ranks. A GPU's peak comes from its ready cluster, if there is one; else the fastest product is the peak.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F

from utils.checking import require_positive
from utils.figures.tables import Column, Table
from utils.planner.explained import in_words
from utils.ranks.run import run_ranks
from utils.simulation.cluster import Cluster, Device, Link
from utils.simulation.clusters import CLUSTERS

ROUNDS, LARGE_BYTES = 5, 1 << 26
SIZES = {"cuda": {"width": 8192, "tokens": 8192, "copied": 1 << 28},
         "cpu": {"width": 1024, "tokens": 1024, "copied": 1 << 24}}


@dataclass(frozen=True)
class Measured:
    """A cluster of this machine's devices, and the share of the peak that the core of attention reaches."""

    cluster: Cluster
    dtype: str
    attention_efficiency: float
    table: Table

    def to_json(self) -> str:
        """As `--device FILE` reads it: utils.planner.cluster_json."""
        device, link = asdict(self.cluster.device), asdict(self.cluster.inside)
        plain = {name: getattr(self.cluster, name) for name in ("name", "n_devices", "devices_per_node", "source")}
        return json.dumps(plain | {"device": device, "inside": link}, indent=2, ensure_ascii=False)

    def __repr__(self) -> str:
        return f"{self.table}\n\nIn plans: --dtype {self.dtype} --attention-efficiency {self.attention_efficiency:.2f}"


def measure(seconds: float = 60.0, on: str | None = None) -> Measured:
    """Measure this machine.

    seconds: how long it may take, about. on: "cpu" or "cuda"; None: a GPU if there is one. On the CPU, torch's threads are
    one device, and products are in float32.
    Raises: TypeError, ValueError, RuntimeError as torch raises it where there is no such device.
    """
    require_positive("seconds", seconds)
    on = on or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if on == "cuda" else torch.float32
    sizes, bench = SIZES[on], _Bench(on, seconds / 8)
    flops = _products(bench, dtype, **{what: sizes[what] for what in ("width", "tokens")})
    core = _attention(bench, dtype, sizes["tokens"])
    copied, little = torch.ones(sizes["copied"], device=on), torch.ones(4, device=on)
    speed = 2 * copied.nbytes / bench.seconds(copied.clone)
    start_s = bench.seconds(lambda: little.add_(1))
    link = _link(on)
    peak, name, held = _peak(on, dtype, max(flops.values()))
    share = median(flops.values()) / peak
    device = Device(name, {_named(dtype): peak}, held, speed, efficiency=share, overhead_s=start_s,
                    library="NCCL" if on == "cuda" else "gloo")
    count = torch.cuda.device_count() if on == "cuda" else 1
    rows = [*({"what": f"product, {what}", "value": value, "unit": "FLOP/s", "share": value / peak}
              for what, value in flops.items()),
            {"what": "core of attention", "value": core, "unit": "FLOP/s", "share": core / peak},
            {"what": "copy in memory", "value": speed, "unit": "B/s", "share": None},
            {"what": "an operation on next to nothing", "value": start_s, "unit": "s", "share": None},
            {"what": "link between two ranks", "value": link.bytes_per_s, "unit": "B/s", "share": None}]
    table = Table([row | {"said": in_words(row["value"], row["unit"])} for row in rows], [
        Column("what", "measured"), Column("said", "value"),
        Column("share", "of the peak", show=lambda share: "" if share is None else f"{100 * share:.0f} %")])
    cluster = Cluster("this machine", device, max(count, 2), max(count, 2), link, source="measured here")
    return Measured(cluster, _named(dtype), core / peak, table)


class _Bench:
    """Times operations on one device, each for a part of the time that is asked for."""

    def __init__(self, on: str, seconds_each: float = 0.0):
        self._wait = torch.cuda.synchronize if on == "cuda" else (lambda: None)
        self._each, self.on = seconds_each, on

    def seconds(self, operation: Callable) -> float:
        """Of one call among as many as there is time for."""
        once = min(self._round(operation, 1), self._round(operation, 1))
        return self.of_many(operation, max(1, int(self._each / (ROUNDS + 1) / max(once, 1e-6))))

    def of_many(self, operation: Callable, times: int) -> float:
        """Of one call among so many, queued one after the other: the median of some rounds after a first one."""
        return median([self._round(operation, times) for _ in range(ROUNDS + 1)][1:])

    def _round(self, operation: Callable, times: int) -> float:
        self._wait()
        began = time.perf_counter()
        for _ in range(times):
            operation()
        self._wait()
        return (time.perf_counter() - began) / times


def _products(bench: _Bench, dtype: torch.dtype, width: int, tokens: int) -> dict[str, float]:
    """FLOP/s of the products of a layer: to queries, keys and values, up to four times the width, and down again."""
    found = {}
    for inner, columns in ((width, 3 * width), (width, 4 * width), (4 * width, width)):
        x, weight = (torch.randn(rows, inner, device=bench.on).to(dtype) for rows in (tokens, columns))
        found[f"{tokens:,} × {inner:,} by {inner:,} × {columns:,}"] = 2 * tokens * inner * columns / bench.seconds(
            lambda x=x, weight=weight: x @ weight.T)
    return found


def _attention(bench: _Bench, dtype: torch.dtype, tokens: int, heads: int = 16, head_size: int = 128) -> float:
    """FLOP/s of scores and their product with values, causal, forward and backward; half of the scores count."""
    q, k, v = (torch.randn(1, heads, tokens, head_size, device=bench.on).to(dtype).requires_grad_() for _ in range(3))

    def both_passes() -> None:
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

    forward = 2 * 2 * heads * tokens * tokens * head_size / 2
    return 3 * forward / bench.seconds(both_passes)


def _link(on: str) -> Link:
    """Between two ranks, from all-reduces of 4 bytes and of many: NCCL's where there are two GPUs, else gloo's."""
    on = on if on == "cuda" and torch.cuda.device_count() > 1 else "cpu"
    little_s, large_s = run_ranks(_all_reduces, 2, device=on, trace=False, memory=False).results[0]
    return Link("measured", little_s / 2, LARGE_BYTES / max(large_s - little_s, 1e-9))


def _all_reduces() -> tuple[float, float]:
    """Seconds of both, as often on each rank. On two ranks a ring has two steps, each with half of the bytes."""
    bench = _Bench(torch.get_default_device().type)
    little, large = torch.ones(1), torch.ones(LARGE_BYTES // 4)
    return bench.of_many(lambda: dist.all_reduce(little), 50), bench.of_many(lambda: dist.all_reduce(large), 3)


def _peak(on: str, dtype: torch.dtype, fastest: float) -> tuple[float, str, float]:
    """(FLOP/s, the device's name, bytes of its memory); of a GPU that is ready by its data sheet."""
    if on == "cpu":
        return fastest, "processors of this machine", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    properties = torch.cuda.get_device_properties(0)
    known = [cluster.device for cluster in CLUSTERS.values() if cluster.device.name.split()[0] in properties.name]
    by_sheet = max((device.flops.get(_named(dtype), 0) for device in known), default=0)
    return max(by_sheet, fastest), properties.name, properties.total_memory


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
