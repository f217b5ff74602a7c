"""Stacked bars of memory: bytes by category, one bar a rank, a stage or a model."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from utils.figures.colours import BLUE, CYCLE, FAINT, GREEN, INK, ORANGE, SKY, VERMILLION
from utils.figures.shapes import bar, name_rows
from utils.figures.style import (
    WIDTH_IN,
    Picture,
    byte_unit,
    first_that_fits,
    human_bytes,
    inch_axes,
    new_figure,
    styled,
    text_width_in,
)

COLOURS = {"parameters": BLUE, "gradients": ORANGE, "optimizer state": GREEN,
           "master copy": "#80CBB5", "momentum and variance": GREEN, "activations": SKY}  # both of them optimizer state
BAR_IN, LEGEND_IN, BOTTOM_IN, RIGHT_IN, KEY_IN = 0.36, 0.42, 0.5, 0.85, 0.55  # KEY_IN: a colour of the legend, and gaps
ROUND = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)  # steps of the scale, in the unit that suits it
Bars = Sequence[tuple[str, Mapping[str, float]]]
Show = Callable[[float], str]

# The thirteen parts of a transformer block that keep something for its backward pass.
GROUPS = {
    "LayerNorms": ("attention_norm", "mlp_norm"),
    "core of attention": ("attention.softmax", "attention.dropout", "attention.mix"),
    "qkv and out": ("qkv", "attention.scores", "out"),
    "MLP": ("up", "gelu", "down"),
    "masks outside the core": ("attention_dropout", "mlp_dropout"),
}


def activation_bars(bars: Bars, title: str = "") -> Picture:
    """What a transformer block keeps: one bar for each (label, {part of a TransformerBlock: bytes}), by kind of part.

    What belongs to no group keeps its own name.  Raises: ValueError as memory_bars.
    """
    return memory_bars([(label, _grouped(parts)) for label, parts in bars], title=title)


def _grouped(parts: Mapping[str, float]) -> dict[str, float]:
    group_of = {part: group for group, members in GROUPS.items() for part in members}
    sizes = dict.fromkeys(GROUPS, 0.0)
    for part, size in parts.items():
        group = group_of.get(part, part)
        sizes[group] = sizes.get(group, 0.0) + size
    return sizes


@styled
def memory_bars(bars: Bars, limit_bytes: float | None = None, title: str = "", base: int = 1024,
                in_kib: bool = False) -> Picture:
    """One horizontal bar for each (label, {category: bytes}), with its total at the end.

    bars: such as [("rank 0", run.memory[0].peak)]; limit_bytes: a line, such as what a GPU has;
    base: 1024 counts in KiB, MiB, GiB; 1000 in kB, MB, GB, as many papers do; in_kib: all numbers in whole KiB,
    so that bars of nearly the same length can be compared. A total beyond the limit has the limit's colour.
    Raises: ValueError without bars or with negative bytes.
    """
    if not bars or any(size < 0 for _, parts in bars for size in parts.values()):
        raise ValueError("memory_bars needs one or more (label, {category: bytes}), none of them negative")
    colours, show = _colours(bars), _kib if in_kib else partial(human_bytes, base=base)
    names_in = max(text_width_in(line, 9) for label, _ in bars for line in label.split("\n"))
    top_in, left_in = LEGEND_IN + 0.3 * bool(title), names_in + 0.3
    bars_in, width_in = len(bars) * BAR_IN, WIDTH_IN - left_in - RIGHT_IN
    height_in = bars_in + top_in + BOTTOM_IN
    figure = new_figure(height_in)
    axes = inch_axes(figure, left_in, BOTTOM_IN, width_in, bars_in)
    most = max([sum(parts.values()) for _, parts in bars] + [limit_bytes or 0]) or 1
    _label(axes, bars, most, base, in_kib)
    _draw_bars(axes, bars, colours, width_in / most, show, limit_bytes)
    keys: list[Artist] = [Patch(facecolor=colour, label=category) for category, colour in colours.items()]
    if limit_bytes is not None:
        keys.append(axes.axvline(limit_bytes, color=VERMILLION, linewidth=1.5, linestyle=(0, (4, 2)), zorder=0.8,
                                 label=f"limit {show(limit_bytes)}"))
    keys_in = sum(text_width_in(str(key.get_label()), 9) + KEY_IN for key in keys)
    figure.legend(handles=keys, ncols=len(keys), loc="upper left", borderaxespad=0, handlelength=1.3,
                  bbox_to_anchor=(max(0.1, min(left_in, WIDTH_IN - keys_in)) / WIDTH_IN,
                                  1 - (0.1 + 0.3 * bool(title)) / height_in))
    figure.text(left_in / WIDTH_IN, 1 - 0.2 / height_in, title, fontsize=10.5, fontweight="bold", va="center")
    return Picture(figure, _in_words(bars, limit_bytes, title, show))


def _colours(bars: Bars) -> dict[str, str]:
    """A colour for every category that occurs: the usual ones first, then the rest in order of appearance."""
    present = dict.fromkeys(category for _, parts in bars for category, size in parts.items() if size)
    usual = {category: colour for category, colour in COLOURS.items() if category in present}
    spare = [colour for colour in CYCLE if not usual or colour not in COLOURS.values()]
    others = [category for category in present if category not in COLOURS]
    return usual | {category: spare[i % len(spare)] for i, category in enumerate(others)}


def _draw_bars(axes: Axes, bars: Bars, colours: dict[str, str], inches_per_byte: float, show: Show,
               limit_bytes: float | None) -> None:
    for row, (_, parts) in enumerate(bars):
        left = 0.0
        for category, colour in colours.items():
            size = parts.get(category, 0)
            text = first_that_fits(_texts(size, show) * (size < sum(parts.values())), size * inches_per_byte - 0.1, 8)
            bar(axes, row, (left, left + size), colour, text, fontsize=8, height=0.68,
                edge=0.5 * (size * inches_per_byte > 0.04))  # a white edge would hide a sliver
            left += size
        total_bytes, total = left, show(left)
        if limit_bytes and 0 <= (limit_bytes - left) * inches_per_byte < 0.3:
            left = limit_bytes  # the total stands behind the line, as near to its bar
        axes.annotate(total, (left, row), xytext=(4, 0), textcoords="offset points", va="center_baseline",
                      fontsize=8.5, fontweight="bold", annotation_clip=False,
                      color=VERMILLION if limit_bytes is not None and total_bytes > limit_bytes else INK,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})


def _texts(size: float, show: Show) -> list[str]:
    """What may be written into a segment; in whole KiB, where the scale has one unit, also without the unit."""
    return [show(size), f"{size / 1024:,.0f}"] if show is _kib else [show(size)]


def _label(axes: Axes, bars: Bars, most: float, base: int, in_kib: bool) -> None:
    """The bars' labels, and ticks at 3 to 7 round steps."""
    name_rows(axes, [label for label, _ in bars])
    unit = 1024 if in_kib else byte_unit(most, base)[0]
    smallest = 0.25 if base == 1024 else 0.2  # round numbers of the next smaller unit
    step = max(1, next((unit * step for step in (smallest, *ROUND) if most / (unit * step) <= 7), most))
    axes.set(xlim=(0, most), xticks=[i * step for i in range(int(most / step) + 1)])
    axes.xaxis.set_major_formatter(lambda size, _: _kib(size) if in_kib else _exact(size, base))
    axes.tick_params(axis="x", labelcolor=FAINT)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def _kib(size: float) -> str:
    return f"{size / 1024:,.0f} KiB"


def _exact(size: float, base: int) -> str:
    """A tick, without rounding: 1.25 MiB, where human_bytes has 1.2."""
    unit, name = byte_unit(size, base)
    return f"{size / unit:g} {name}"


def _in_words(bars: Bars, limit_bytes: float | None, title: str, show: Show) -> str:
    rows = [f"{label}: {show(sum(parts.values()))} (" + ", ".join(
        f"{category} {show(size)}" for category, size in parts.items() if size) + ")" for label, parts in bars]
    limit = f" Limit: {show(limit_bytes)}." if limit_bytes is not None else ""
    return f"{title or 'Memory'}. {'; '.join(rows)}.{limit}"
