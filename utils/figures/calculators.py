"""Calculators that run on a student's own formula: sliders above a figure.

Each shows a still picture of the same thing wherever widgets do not run, such as in an exported page.
"""

from collections.abc import Callable

import ipywidgets

from utils.costs.tables import read_table
from utils.figures.bars import memory_bars
from utils.figures.style import Picture
from utils.figures.widgets import Interactive

A100_BYTES = 80e9
WAYS = {"everything kept": (False, "none"), "sequence parallel": (True, "none"),
        "selective recomputation": (False, "selective"), "both": (True, "selective"),
        "full recomputation": (False, "full"), "full, of pieces": (True, "full")}


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
