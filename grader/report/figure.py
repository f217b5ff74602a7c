"""The figure of a report: how many students earned nothing, part or all of each exercise's points, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from grader.report.tally import Tally
from utils.figures.style import BLUE, FAINT, INK, ORANGE, SKY, WIDTH_IN, Picture, first_that_fits, ink_on, new_figure, styled
from utils.figures.style import text_width_in as width_in

SHADES = {"none": ORANGE, "part": SKY, "full": BLUE}
ROW_IN, TOP_IN, BOTTOM_IN, GAP_IN, BARS_IN = 0.32, 0.62, 0.16, 0.12, 3.4
SIZE, SMALL = 9.5, 8.5


@styled
def points_figure(unit: str, tallies: Sequence[Tally]) -> Picture:
    """One bar an exercise, from top to bottom; beside it the commonest way in which points were lost."""
    height_in = TOP_IN + ROW_IN * max(1, len(tallies)) + BOTTOM_IN
    figure = new_figure(height_in)
    left_in = GAP_IN + max([width_in(t.exercise, SIZE) for t in tallies], default=1.0) + GAP_IN
    axes = figure.add_axes((left_in / WIDTH_IN, BOTTOM_IN / height_in, BARS_IN / WIDTH_IN,
                            (height_in - TOP_IN - BOTTOM_IN) / height_in))
    axes.set(xlim=(0, 1), ylim=(max(1, len(tallies)) - 0.5, -0.5))
    axes.axis("off")
    room_in = WIDTH_IN - left_in - BARS_IN - 2 * GAP_IN
    for row, one in enumerate(tallies):
        _draw_bar(axes, row, one)
        axes.text(-GAP_IN / BARS_IN, row, one.exercise, ha="right", va="center", fontsize=SIZE)
        axes.text(1 + GAP_IN / BARS_IN, row, _annotation(one, room_in), ha="left", va="center", fontsize=SMALL, color=INK)
    n_students = max([len(t.points) for t in tallies], default=0)
    figure.text(GAP_IN / WIDTH_IN, 1 - 0.2 / height_in, f"{unit}: points of {n_students} "
                f"student{'s' * (n_students != 1)}", fontsize=10.5, fontweight="bold", va="center")
    _draw_legend(figure, left_in, height_in)
    return Picture(figure, in_words(unit, tallies))


def in_words(unit: str, tallies: Sequence[Tally]) -> str:
    """The figure for readers who do not see it."""
    parts = [f"{t.exercise}: {t.none} none, {t.part} part, {t.full} all" for t in tallies]
    return f"Students by points in {unit}. {'; '.join(parts)}."


def _draw_bar(axes: Axes, row: int, one: Tally) -> None:
    left, total = 0.0, len(one.points) or 1
    for name, shade in SHADES.items():
        count = getattr(one, name)
        axes.barh(row, count / total, left=left, height=0.72, color=shade, edgecolor="white", linewidth=0.8)
        text = first_that_fits([str(count) if count else ""], count / total * BARS_IN - 0.06, SMALL)
        axes.text(left + count / total / 2, row, text, ha="center", va="center", fontsize=SMALL, color=ink_on(shade))
        left += count / total


def _draw_legend(figure, left_in: float, height_in: float) -> None:
    x_in, y = left_in, 1 - 0.46 / height_in
    for name, shade in SHADES.items():
        text = {"none": "no points", "part": "part of them", "full": "all points"}[name]
        figure.text(x_in / WIDTH_IN, y, "■", color=shade, fontsize=11, va="center")
        figure.text((x_in + 0.16) / WIDTH_IN, y, text, fontsize=SMALL, va="center")
        x_in += 0.16 + width_in(text, SMALL) + 0.25
    figure.text((left_in + BARS_IN + GAP_IN) / WIDTH_IN, y, "commonest trouble", fontsize=SMALL, va="center", color=FAINT)


def _annotation(one: Tally, room_in: float) -> str:
    """"12× whole tensors", cut to the room there is."""
    if not one.symptoms:
        return ""
    text = f"{len(one.symptoms[0].students)}× {one.symptoms[0].name}".replace("$", r"\$")
    return first_that_fits([text, *(text[:end] + "…" for end in range(len(text) - 1, 0, -1))], room_in, SMALL)
