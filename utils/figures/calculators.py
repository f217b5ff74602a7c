"""Calculators that run on a student's own formula: sliders above a figure.

Each shows a still picture of the same thing wherever widgets do not run, such as in an exported page.
"""

from collections.abc import Callable, Mapping

import ipywidgets

from utils.costs.tables import read_table
from utils.figures.bars import memory_bars
from utils.figures.curves import layer_times
from utils.figures.data_parallel import tokens_figure
from utils.figures.style import Picture
from utils.figures.widgets import Interactive

A100_BYTES = 80e9
BFLOAT16_FLOPS_PER_S = {"A100": 312e12, "H100": 989e12}  # peak, dense, by NVIDIA's data sheets of the SXM cards
WAYS = {"everything kept": (False, "none"), "sequence parallel": (True, "none"),
        "selective recomputation": (False, "selective"), "both": (True, "selective"),
        "full recomputation": (False, "full"), "full, of pieces": (True, "full")}
BILLIONS = (0.125, 0.35, 1.3, 2.7, 6.7, 7.5, 13, 22, 30, 70, 175, 405, 530, 671, 1000)  # parameters, of published models


def activation_calculator(activation_bytes: Callable[..., float]) -> Interactive:
    """Model, sequence, batch and tensor-parallel ranks by slider; the activations of all its layers on one rank.

    activation_bytes: (s, b, h, a, t, sequence_parallel, recompute) → bytes of one layer on one rank, recompute being "none",
    "selective" or "full". Models: those of Korthikanti et al., 2205.05198, in recompute_tables_22B_175B.csv. No pipeline:
    its first stage holds as many activations as all layers do for one micro-batch.
    """
    models = {row["model"]: row for row in read_table("recompute_tables_22B_175B")}
    model = ipywidgets.Dropdown(options=list(models), description="model")
    length = ipywidgets.SelectionSlider(options=[2**k for k in range(9, 18)], value=2048, description="sequence")
    batch = ipywidgets.IntSlider(4, min=1, max=8, description="batch")
    ranks = ipywidgets.SelectionSlider(options=(1, 2, 4, 8), value=8, description="ranks t")

    def picture(name: str, s: int, b: int, t: int) -> Picture:
        row = models[name]
        sizes = s, b, row["hidden"], row["heads"], t
        bars = [(way, {"activations": row["layers"] * activation_bytes(*sizes, *how)}) for way, how in WAYS.items()]
        return memory_bars(bars, A100_BYTES, f"{name}: activations on one of {t} ranks, {b} × {s} positions", base=1000)

    return Interactive([model, length, batch, ranks], picture)


def _billions() -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(options=BILLIONS, value=7.5, description="parameters, 10⁹",
                                      style={"description_width": "initial"})


def memory_calculator(held: Mapping[str, Callable[[int, int], float]]) -> Interactive:
    """Model, ranks and device by slider; the bytes of parameters, gradients and optimizer state that a rank holds.

    held: a way of training → (n_parameters, n_ranks) → bytes on one rank, such as {"ZeRO-1": zero1_bytes}.
    """
    size = _billions()
    ranks = ipywidgets.SelectionSlider(options=[2**k for k in range(13)], value=64, description="ranks")
    device = ipywidgets.SelectionSlider(options=(16, 24, 40, 80, 96, 141, 192), value=80, description="device, GB")

    def picture(billions: float, n: int, device_gb: int) -> Picture:
        bars = [(way, {"parameters, gradients, optimizer state": bytes_of(round(billions * 1e9), n)})
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
    link = ipywidgets.SelectionSlider(options=(1.25, 5, 12.5, 25, 50, 100, 200, 300, 450, 900), value=50,
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
        ranks = [2**k for k in range(1, 7)]
        return layer_times(ranks, [layer_bytes(rows, n_tokens, dim, n) for n in ranks], [compute_s / n for n in ranks],
                           links, node=8)

    return Interactive([width, length, batch, gpu], picture)
