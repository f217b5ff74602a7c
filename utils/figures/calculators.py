"""Calculators that run on a student's own formula: sliders above a figure.

Each shows a still picture of the same thing wherever widgets do not run, such as in an exported page.
"""

import contextlib
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets

from utils.costs.tables import read_table
from utils.figures.bars import memory_bars
from utils.figures.curves import layer_times
from utils.figures.data_parallel import tokens_figure
from utils.figures.planner_figures import time_bars
from utils.figures.style import Picture, moving_html
from utils.figures.widgets import Interactive

A100_BYTES = 80e9
STATE = "parameters, gradients, optimizer state"
BFLOAT16_FLOPS_PER_S = {"A100": 312e12, "H100": 989e12}  # peak, dense, by NVIDIA's data sheets of the SXM cards
WAYS = {"tensor parallelism alone": (False, "none"), "with sequence parallelism": (True, "none"),
        "with selective recomputation": (False, "selective"), "with both": (True, "selective"),
        "with full recomputation": (False, "full"),
        "with full recomputation\nand sequence parallelism": (True, "full")}
BILLIONS = (0.125, 0.35, 1.3, 2.7, 6.7, 7.5, 13, 22, 30, 70, 175, 405, 530, 671, 1000)  # parameters, of published models


def activation_calculator(activation_bytes: Callable[..., float]) -> Interactive:
    """Model, sequence, batch and tensor-parallel ranks by slider; what all of it takes on one rank of the first stage.

    activation_bytes: (s, b, h, a, t, sequence_parallel, recompute) → bytes of one block on one rank, recompute being "none",
    "selective" or "full". Models and their pipelines: those of Korthikanti et al., 2205.05198, in
    recompute_tables_22B_175B.csv; the bars are those of first_stage_figure.
    """
    models = {row["model"]: row for row in read_table("recompute_tables_22B_175B")}
    model = ipywidgets.Dropdown(options=list(models), value="175B", description="model")
    length = ipywidgets.SelectionSlider(options=[2**k for k in range(9, 18)], value=4096, description="sequence")
    batch = ipywidgets.IntSlider(1, min=1, max=8, description="batch")
    ranks = ipywidgets.SelectionSlider(options=(1, 2, 4, 8), value=8, description="ranks t")

    def picture(name: str, s: int, b: int, t: int) -> Picture:
        return _first_stage(activation_bytes, models[name], s, b, t)

    return Interactive([model, length, batch, ranks], picture)


def first_stage_figure(activation_bytes: Callable[..., float], model: str) -> Picture:
    """What a rank of the first pipeline stage holds, for a model and layout of Korthikanti et al. and every way.

    activation_bytes: as in activation_calculator; model: "22B" or "175B".
    """
    row = next(row for row in read_table("recompute_tables_22B_175B") if row["model"] == model)
    return _first_stage(activation_bytes, row, 2048, row["mbs"], row["tp"])


def _first_stage(activation_bytes: Callable[..., float], row: Mapping[str, Any], s: int, b: int, t: int) -> Picture:
    """One bar for each way: 16 bytes for each parameter of the stage's layers, 12h² in one, and the activations."""
    state = 16 * 12 * row["layers"] * row["hidden"] ** 2 / (t * row["pp"])
    # under 1F1B the first stage holds all layers' worth; with the stages' layers in v chunks, somewhat more
    layers = row["layers"] * (1 + (row["pp"] - 1) / (row["pp"] * row["v"]))
    bars = []
    for name, (parallel, recompute) in WAYS.items():
        sizes = s, b, row["hidden"], row["heads"], t, parallel
        whole = activation_bytes(*sizes, "selective" if recompute == "none" else recompute)
        core = activation_bytes(*sizes, recompute) - whole
        bars.append((name, {STATE: state, "core of attention": layers * core, "other activations": layers * whole}))
    stage, pipeline = (" of the first stage", f" × pipeline {row['pp']}") if row["pp"] > 1 else ("", ", no pipeline")
    title = f"{row['model']}: one rank{stage} (tensor {t}{pipeline}), {b} × {s:,} positions"
    return memory_bars(bars, A100_BYTES, title, base=1000)


def _billions(value: float = 7.5) -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(options=BILLIONS, value=value, description="parameters, 10⁹",
                                      style={"description_width": "initial"})


def memory_calculator(held: Mapping[str, Callable[[int, int], float]], billions: float = 7.5) -> Interactive:
    """Model, ranks and device by slider; the bytes of parameters, gradients and optimizer state that a rank holds.

    held: a way of training → (n_parameters, n_ranks) → bytes on one rank, such as {"ZeRO-3": lambda psi, n: 16 * psi / n};
    billions: of parameters, at first.
    """
    size = _billions(billions)
    ranks = ipywidgets.SelectionSlider(options=[2**k for k in range(13)], value=64, description="ranks")
    device = ipywidgets.SelectionSlider(options=(16, 24, 40, 80, 96, 141, 192), value=80, description="device, GB")

    def picture(billions: float, n: int, device_gb: int) -> Picture:
        bars = [(way, {STATE: bytes_of(round(billions * 1e9), n)})
                for way, bytes_of in held.items()]
        return memory_bars(bars, 1e9 * device_gb, f"{billions:.3g} billion parameters on one of {n:,} ranks", base=1000)

    return Interactive([size, ranks, device], picture)


def tokens_calculator(step_time: Callable[..., float]) -> Interactive:
    """Model, ranks, a rank's speed and its link by slider; the share of its speed that it keeps, against its tokens.

    step_time: (compute_s, gradient_bytes, n_ranks, alpha_s, beta_s_per_byte, overlapped) → seconds of a step. Gradients have
    2 bytes, α is 5 µs, a token costs 6 FLOPs a parameter.
    """
    size = _billions()
    ranks = ipywidgets.SelectionSlider(options=[2**k for k in range(1, 13)], value=64, description="ranks")
    speed = ipywidgets.IntSlider(400, min=50, max=1000, step=50, description="TFLOP/s")
    link = ipywidgets.SelectionSlider(options=(1.25, 5, 12.5, 25, 50, 100, 200, 300, 400, 450, 900), value=400,
                                      description="link, GB/s")
    tokens = [2 ** (k / 4) for k in range(16, 81)]

    def picture(billions: float, n: int, teraflops: int, gb_per_s: float) -> Picture:
        psi, flops_per_s = 1e9 * billions, 1e12 * teraflops

        def took(rank_tokens: float, overlapped: bool) -> tuple[float, float]:
            compute_s = 6 * psi * rank_tokens / flops_per_s
            return compute_s, step_time(n * compute_s, 2 * psi, n, 5e-6, 1e-9 / gb_per_s, overlapped)

        def share(overlapped: bool) -> list[float]:
            return [compute_s / step_s for compute_s, step_s in (took(t, overlapped) for t in tokens)]

        hidden_from = took(0, False)[1] * flops_per_s / (4 * psi)  # tokens of which backward takes as long
        name = f"{gb_per_s:g} GB/s, "
        return tokens_figure(tokens, {name + "overlapped": share(True), name + "one after the other": share(False)},
                             {name + "overlapped": hidden_from})

    return Interactive([size, ranks, speed, link], picture)


def degree_calculator(layer_bytes: Callable[[int, int, int, int], float]) -> Interactive:
    """Width, sequence, batch and GPU by slider; the time that a layer sends on each link beside that of its computing.

    layer_bytes: (batch, length, dim, n_ranks) → bytes that one rank sends for one transformer layer in a step. The GPU
    computes at half of its peak in bfloat16.
    """
    systems = {"A100": ("A100", "gen 4", "HDR 200 Gb/s"), "H100": ("H100", "gen 5", "NDR 400 Gb/s")}  # their links
    width = ipywidgets.SelectionSlider(options=[1024 * k for k in (1, 2, 4, 6, 8, 12, 16, 24)], value=12288,
                                       description="width D")
    length = ipywidgets.SelectionSlider(options=[2**k for k in range(9, 18)], value=2048, description="sequence")
    batch = ipywidgets.IntSlider(1, min=1, max=16, description="batch")
    gpu = ipywidgets.Dropdown(options=list(systems), description="GPU")

    def picture(dim: int, n_tokens: int, rows: int, name: str) -> Picture:
        links = {f"{row['link']}, {row['generation']}": row["one_way_GBps"] for row in read_table("links")
                 if row["generation"] in systems[name] and not row["link"].startswith("node egress")}
        flops = 72 * rows * n_tokens * dim**2 + 12 * rows * n_tokens**2 * dim
        compute_s = flops / (BFLOAT16_FLOPS_PER_S[name] / 2)
        ranks = [2**k for k in range(1, 8)]
        return layer_times(ranks, [layer_bytes(rows, n_tokens, dim, n) for n in ranks], [compute_s / n for n in ranks],
                           links, node=8, inside=[link for link in links if "InfiniBand" not in link],
                           computing="computation, at half the peak")

    return Interactive([width, length, batch, gpu], picture)


WHY = {  # control of the planner's panel -> what happens when it changes
    "tensor parallel": "A layer's weights, and most of the activations that it keeps, are cut into that many shards. "
                       "Its all-reduces have as many members, and they cross nodes if a node has fewer devices. The "
                       "devices that are left over form replicas (dp).",
    "pipeline": "Each device has 1/p of the layers. The first stage keeps the activations of p micro-batches. The bubble "
                "grows with p − 1. The devices that are left over form replicas (dp).",
    "micro-batch": "Activations and messages grow with the micro-batch, and fewer micro-batches are left to fill the "
                   "pipeline. On a GPU a larger one also reaches more of the peak, which this panel leaves out.",
    "ZeRO": "Replicas divide the optimizer state (stage 1), also the gradients (2), and also the parameters (3), which are "
            "then gathered for every pass.",
    "sequence parallel": "It divides the activations that tensor parallelism leaves whole, among the same ranks.",
    "recompute": "Activations that are not kept are computed again in the backward pass.",
    "chunks": "With v chunks on each device the bubble is v times shorter, and stages send v times as many messages. The "
              "first stage also keeps the activations of (p − 1)/v more micro-batches (07), which this panel leaves out.",
}
CAUSES = {"compute": "compute", "tp": "TP exposed", "pp": "PP exposed", "dp": "DP exposed", "bubble": "bubble"}
MOST_PIECES, TOLD = 64, 0.005  # changes of less than this share are not told
Layout = dict[str, Any]


def planner_panel(held: Callable[[Layout], Mapping[str, float]], took: Callable[[Layout], Mapping[str, float]],
                  shape: Mapping[str, int], machine: Mapping[str, Any], n_devices: int, batch: int) -> Interactive:
    """A layout by slider: where a step's time goes, what the fullest device holds, what each change did to both, and why.

    held(layout) → {category: bytes}, took(layout) → {"compute", "tp", "pp", "dp", "bubble": seconds}: the reader's own.
    shape: with "heads" and "layers"; machine: with "memory_bytes"; batch: sequences a step.
    """
    planned = _Planned(held, took, machine["memory_bytes"], n_devices, batch, shape["layers"])
    return _PlannerPanel(planned, shape["heads"])


@dataclass(frozen=True)
class _Planned:
    """What a layout comes to."""

    held: Callable[[Layout], Mapping[str, float]]
    took: Callable[[Layout], Mapping[str, float]]
    limit_bytes: float
    n_devices: int
    batch: int
    layers: int

    def layout(self, t: int, p: int, b: int, zero: int, pieces: bool, recompute: str, v: int) -> Layout:
        """Raises: ValueError, in words, where there is none."""
        dp, rest = divmod(self.n_devices, t * p)
        if rest:
            raise ValueError(f"{t} × {p} ranks do not divide {self.n_devices:,} devices.")
        if self.layers % (p * v):
            raise ValueError(f"{self.layers} layers cannot be divided evenly among {p} stages of {v} chunks.")
        n_micro, rest = divmod(self.batch, dp * b)
        if rest:
            raise ValueError(f"{dp} replicas with micro-batches of {b} do not divide {self.batch:,} sequences.")
        if v > 1 and (p == 1 or n_micro % p):
            raise ValueError(f"Chunks need a pipeline, and micro-batches in multiples of its {p} stages; got {n_micro}.")
        return {"dp": dp, "tp": t, "pp": p, "n_micro": n_micro, "micro_batch": b, "zero": zero, "sequence_parallel": pieces,
                "recompute": recompute, "chunks": v}

    def seconds(self, layout: Layout) -> dict[str, float]:
        return {CAUSES.get(cause, cause): time_s for cause, time_s in self.took(layout).items()}

    def pictures(self, layout: Layout) -> list[Picture]:
        title = "Where a step's time goes: dp {dp} × tp {tp} × pp {pp}, {n_micro} micro-batches".format(**layout)
        return [time_bars({"a step": self.seconds(layout)}, {}, title),
                memory_bars([("fullest device", self.held(layout))], self.limit_bytes, base=1000)]

    def numbers(self, layout: Layout) -> dict[str, tuple[float, str]]:
        """Name → (size, unit)"""
        return ({name: (time_s, "s") for name, time_s in self.seconds(layout).items()}
                | {name: (size / 1e9, "GB") for name, size in self.held(layout).items()})


class _PlannerPanel(Interactive):
    """Controls, two pictures, and what the last change did."""

    def __init__(self, planned: _Planned, heads: int):
        self._planned, self._before, layers = planned, None, planned.layers

        def slider(name: str, options: Sequence[int], value: int) -> ipywidgets.SelectionSlider:
            return ipywidgets.SelectionSlider(options=options, value=value, description=name,
                                              style={"description_width": "initial"})

        degrees = [n for n in range(1, min(heads, MOST_PIECES) + 1) if heads % n == 0]
        stages = [n for n in range(1, layers + 1) if layers % n == 0]
        super().__init__([
            slider("tensor parallel", degrees, max(n for n in degrees if n <= 8)),
            slider("pipeline", stages, max(n for n in stages if n <= 8)), slider("micro-batch", (1, 2, 4, 8), 1),
            slider("ZeRO", (0, 1, 2, 3), 1), ipywidgets.Checkbox(True, description="sequence parallel", indent=False),
            ipywidgets.Dropdown(options=("none", "selective", "full"), value="selective", description="recompute"),
            slider("chunks", (1, 2, 3, 4), 1)], self._drawn, lambda: planned.pictures(self._layout()))

    def refresh(self) -> None:
        """Draw the view anew, and below it say what has changed since the last one, and why."""
        super().refresh()
        with contextlib.suppress(ValueError):
            now = {control.description: control.value for control in self.controls}, self._planned.numbers(self._layout())
            if self._before:
                self.view.value += _changes(*self._before, *now)
            self._before = now

    def _layout(self) -> Layout:
        return self._planned.layout(*(control.value for control in self.controls))

    def _drawn(self, *values: Any) -> str:
        try:
            return "".join(map(moving_html, self._planned.pictures(self._planned.layout(*values))))
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"


def _changes(before: Mapping[str, Any], old: Mapping[str, tuple[float, str]], after: Mapping[str, Any],
             new: Mapping[str, tuple[float, str]]) -> str:
    """HTML: each control that changed, what changed with it, and why."""
    changed = [name for name in after if before[name] != after[name]]
    if not changed:
        return ""
    moved = [f"{name} {old[name][0]:.3g} → {size:.3g} {unit}" for name, (size, unit) in new.items()
             if name in old and abs(size - old[name][0]) > TOLD * max(size, old[name][0])]
    lines = [f"<b>{name} {before[name]} → {after[name]}.</b> {WHY[name]}" for name in changed]
    return f"<p>{'<br>'.join(lines)}<br>{'; '.join(moved) or 'Nothing moved by more than half a percent.'}</p>"
