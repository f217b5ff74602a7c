"""What the planner says, drawn: memory of layouts and stages, parts of a step's time, waiting against devices."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from utils.figures.bars import COLOURS, memory_bars
from utils.figures.colours import (
    BLACK,
    BLUE,
    CYCLE,
    FAINT,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    series_look,
)
from utils.figures.shapes import bar, name_rows
from utils.figures.style import (
    WIDTH_IN,
    Picture,
    first_that_fits,
    inch_axes,
    new_figure,
    plot,
    styled,
    text_width_in,
)

PARTS = {"compute": BLUE, "elementwise": SKY, "TP exposed": ORANGE, "CP exposed": YELLOW, "EP exposed": PURPLE,
         "bubble": GREY, "PP exposed": GREEN, "DP exposed": VERMILLION, "optimizer": BLACK}
BAR_IN, TOP_IN, BOTTOM_IN, RIGHT_IN = 0.36, 0.75, 0.55, 1.6
MOST_STAGES = 20
OTHERS = "framework, allocator"


class HasPlan(Protocol):
    """A plan, as far as figures need it."""

    memory: Any
    limit: Any
    time: Any
    mfu: Any


class HasParts(Protocol):
    """A number that is the sum of named parts."""

    parts: Any


class HasRatio(Protocol):
    """A strategy on so many devices, and how many times as long it waits as it computes."""

    strategy: str
    devices: int
    ratio: float


def plan_memory_figure(plans: Mapping[str, HasPlan], title: str = "Memory of the fullest device") -> Picture:
    """Bytes by category, a bar for each (label, plan), beside what a device may hold (GB, 10⁹).

    Raises: ValueError without plans.
    """
    if not plans:
        raise ValueError("plan_memory_figure needs one or more {label: plan}")
    bars = [(label, _by_category(plan.memory.parts)) for label, plan in plans.items()]
    return memory_bars(bars, limit_bytes=min(float(plan.limit) for plan in plans.values()), title=title, base=1000)


def stage_memory_figure(stages: Sequence[HasParts], limit_bytes: float,
                        title: str = "Memory of a device at each stage of the pipeline") -> Picture:
    """Bytes by category, a bar for each stage, beside what a device may hold (GB, 10⁹).

    stages: as Plan.memory_by_stage. Neighbours with the same bytes share a bar. Of more than MOST_STAGES bars only the
    first, the last, the fullest and some between them are shown.
    Raises: ValueError without stages.
    """
    if not stages:
        raise ValueError("stage_memory_figure needs one or more stages")
    sizes = [_by_category(stage.parts) for stage in stages]
    groups = [list(group) for _, group in itertools.groupby(range(len(sizes)), key=lambda stage: sizes[stage])]
    bars = [(_stages(group), sizes[group[0]]) for group in groups]
    if len(bars) > MOST_STAGES:
        fullest = max(range(len(bars)), key=lambda place: sum(bars[place][1].values()))
        shown = sorted({fullest, *(round(step * (len(bars) - 1) / (MOST_STAGES - 2)) for step in range(MOST_STAGES - 1))})
        bars, title = [bars[place] for place in shown], f"{title} ({len(shown)} of {len(bars)} shown)"
    return memory_bars(bars, limit_bytes=limit_bytes, title=title, base=1000)


def _stages(places: Sequence[int]) -> str:
    return f"stage {places[0]}" if len(places) == 1 else f"stages {places[0]}–{places[-1]}"


def _by_category(parts: Sequence[Any]) -> dict[str, float]:
    """The usual four; what ZeRO-3 has gathered are parameters, and what holds nothing of the model is the framework's."""
    sizes = dict.fromkeys([*COLOURS, OTHERS], 0.0)
    for part in parts:
        usual = "parameters" if "gathered" in part.name else OTHERS
        sizes[part.name if part.name in COLOURS else usual] += float(part)
    return sizes


def plan_time_figure(plans: Mapping[str, HasPlan], title: str = "Where the time of a step goes",
                     ends: Mapping[str, str] | None = None) -> Picture:
    """Seconds by part, a stacked bar for each (label, plan), at the end its sum and MFU.

    ends: label → what stands there in place of MFU; then parts that nobody could see are left out.
    Raises: ValueError without plans.
    """
    if not plans:
        raise ValueError("plan_time_figure needs one or more {label: plan}")
    rows = {label: {part.name: float(part) for part in plan.time.parts} for label, plan in plans.items()}
    if ends is None:
        return time_bars(rows, {label: f"MFU {100 * float(plan.mfu):.0f} %" for label, plan in plans.items()}, title)
    seen = {part for parts in rows.values() for part, size in parts.items() if size > _longest(rows) / 1000}
    return time_bars({label: {part: size for part, size in parts.items() if part in seen} for label, parts in rows.items()},
                     ends, title, {label: float(plan.time) for label, plan in plans.items()})


@styled
def time_bars(rows: Mapping[str, Mapping[str, float]], ends: Mapping[str, str], title: str,
              sums: Mapping[str, float] | None = None) -> Picture:
    """A stacked bar for each label, its sum at the end.

    rows: label → part (of PARTS) → seconds; ends: label → what follows the sum; sums: label → seconds with
    all parts, where `rows` leaves some out.
    """
    wholes = {label: _sum((sums or {}).get(label, sum(parts.values()))) for label, parts in rows.items()}
    ends = {label: ", ".join(filter(None, (whole, ends.get(label, "")))) for label, whole in wholes.items()}
    present = [part for part in PARTS if any(parts.get(part, 0) > 0 for parts in rows.values())]
    left_in, bars_in, most = max(text_width_in(label, 9) for label in rows) + 0.3, len(rows) * BAR_IN, _longest(rows)
    width_in = WIDTH_IN - left_in - RIGHT_IN
    lines = -(-sum(text_width_in(part, 9) + 0.5 for part in present) // (WIDTH_IN - left_in))
    height_in = bars_in + TOP_IN + BOTTOM_IN + 0.22 * (lines - 1)
    figure = new_figure(height_in)
    axes = inch_axes(figure, left_in, BOTTOM_IN, width_in, bars_in)
    name_rows(axes, list(rows))
    axes.set(xlim=(0, most), xlabel="seconds a step")
    axes.spines["left"].set_visible(False)
    _draw(axes, list(rows.values()), list(ends.values()), present, width_in / most)
    keys = [Patch(facecolor=PARTS[part], label=part) for part in present]
    figure.legend(handles=keys, ncols=-(-len(keys) // int(lines)), loc="upper left", borderaxespad=0, handlelength=1.3,
                  columnspacing=1.2, bbox_to_anchor=(left_in / WIDTH_IN, 1 - 0.38 / height_in))
    figure.text(left_in / WIDTH_IN, 1 - 0.2 / height_in, title, fontsize=10.5, fontweight="bold", va="center")
    words = [f"{label}: {end} (" + ", ".join(f"{part} {_seconds(size)}" for part, size in rows[label].items() if size) + ")"
             for label, end in ends.items()]
    return Picture(figure, f"{title}. {'; '.join(words)}.")


def _draw(axes: Axes, rows: Sequence[Mapping[str, float]], ends: Sequence[str], present: Sequence[str],
          inches_per_s: float) -> None:
    """A bar for each part of each row, and a text at its end."""
    for row, (parts, end) in enumerate(zip(rows, ends, strict=True)):
        left = 0.0
        for part in present:
            size = parts.get(part, 0.0)
            texts = [_seconds(size), f"{size:.3g}"] if size >= 1 else [_seconds(size)]
            text = first_that_fits(texts, size * inches_per_s - 0.1, 8)
            bar(axes, row, (left, left + size), PARTS[part], text, fontsize=8, height=0.68)
            left += size
        axes.annotate(end, (left, row), xytext=(4, 0), textcoords="offset points", va="center_baseline", fontsize=8.5,
                      annotation_clip=False)


def _longest(rows: Mapping[str, Mapping[str, float]]) -> float:
    return max(sum(parts.values()) for parts in rows.values()) or 1.0


def _sum(time_s: float) -> str:
    """With two decimals from 10 s on: bars of layouts often differ by less than a tenth of a second."""
    return f"{time_s:.2f} s" if time_s >= 10 else _seconds(time_s)


def _seconds(time_s: float) -> str:
    return f"{time_s:.3g} s" if time_s >= 1 or time_s == 0 else f"{1e3 * time_s:.3g} ms"


@styled
def scaling_figure(points: Sequence[HasRatio], title: str = "Waiting, as a multiple of computing",
                   ends: Mapping[str, str] | None = None) -> Picture:
    """Waiting over computing against the number of devices, a line a strategy; above 1, no overlap can hide it.

    A line ends where its strategy does: more ranks than sequences, heads, layers. ends: strategy → what stands at the end
    of its line, in place of a legend.
    Raises: ValueError without points, and for an end that has no line.
    """
    if not points:
        raise ValueError("scaling_figure needs one or more points")
    lines: dict[str, list[HasRatio]] = {}
    for point in points:
        if point.ratio > 0:
            lines.setdefault(point.strategy, []).append(point)
    if unknown := {*(ends or ())} - lines.keys():
        raise ValueError(f"ends of {', '.join(sorted(unknown))}, but the lines are {', '.join(lines)}")
    figure, axes = plot(4.2)
    looks = {name: series_look(number) | {"linestyle": "-" if number < len(CYCLE) else "--"}
             for number, name in enumerate(lines)}
    if ends:  # yellow letters can't be read
        looks = {name: look | {"color": BLACK if look["color"] == YELLOW else look["color"]} for name, look in looks.items()}
    for name, own in lines.items():
        axes.plot([point.devices for point in own], [point.ratio for point in own], markersize=4, label=name, **looks[name])
    axes.axhline(1, color=FAINT, linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="devices", ylabel="waiting / computing", title=title)
    bottom, top = axes.get_ylim()
    axes.axhspan(1, max(top, 1), color=ORANGE, alpha=0.1, linewidth=0)
    axes.set_ylim(bottom, max(top, 1.5))
    axes.annotate("waits longer than it computes", (1 if ends else 0, 1), xycoords=("axes fraction", "data"),
                  xytext=(-4 if ends else 4, 4), ha="right" if ends else "left", textcoords="offset points", color=FAINT,
                  fontsize=8.5)
    axes.xaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.grid(True)
    if ends:
        axes.set_xlim(right=axes.get_xlim()[1] * 3)  # room for what stands there
        _name_ends(axes, lines, ends)
    else:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    words = "; ".join(f"{name}: {own[0].ratio:.2g} on {own[0].devices:,}, {own[-1].ratio:.2g} on {own[-1].devices:,} devices"
                      + f" ({(ends or {}).get(name)})" * (name in (ends or {})) for name, own in lines.items())
    return Picture(figure, f"{title}. {words}.")


def _name_ends(axes: Axes, lines: Mapping[str, Sequence[HasRatio]], ends: Mapping[str, str]) -> None:
    """A text at the end of each line, where it covers fewest points of lines and no other text."""
    axes.figure.draw_without_rendering()  # so that the axes have their place
    parts = [step / 8 for step in range(9)]
    drawn = [axes.transData.transform((point.devices ** (1 - part) * after.devices**part,
                                       point.ratio ** (1 - part) * after.ratio**part))
             for own in lines.values() for point, after in itertools.pairwise(own) for part in parts]
    taken: list[tuple[float, float, float, float]] = []
    per_point = axes.figure.dpi / 72
    for name, text in ends.items():
        x, y = axes.transData.transform((lines[name][-1].devices, lines[name][-1].ratio))
        width, height = 1.12 * text_width_in(text, 8.5) * 72, 11  # in bold type
        places = [(7, -4), (7, 4), (7, -13), (-width - 6, 1), (-width / 2, 8), (-width / 2, -18), (7, 14), (7, -24),
                  (-width, 14), (-width, -24)]
        boxes = [(x + right * per_point, y + up * per_point,
                  x + (right + width) * per_point, y + (up + height) * per_point) for right, up in places]
        costs = [sum(left <= at <= right and low <= up <= high for at, up in drawn)
                 + 100 * (left < axes.bbox.x0 or right > axes.bbox.x1)
                 + 100 * sum(left < box[2] and box[0] < right and low < box[3] and box[1] < high for box in taken)
                 for left, low, right, high in boxes]
        best = costs.index(min(costs))
        taken.append(boxes[best])
        axes.annotate(text, (lines[name][-1].devices, lines[name][-1].ratio), xytext=places[best], fontsize=8.5,
                      textcoords="offset points", va="bottom", annotation_clip=False, fontweight="bold",
                      color=axes.lines[list(lines).index(name)].get_color())
