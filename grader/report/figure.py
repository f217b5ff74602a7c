"""The figure of a report: how many students earned nothing, part or all of each exercise's points, and what went wrong."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grader.report.tally import Tally
from utils.figures.colours import BLUE, FAINT, ORANGE, SKY, ink_on
from utils.figures.style import WIDTH_IN, Picture, first_that_fits, new_figure, styled
from utils.figures.style import text_width_in as width_in

SHADES = {"none": ORANGE, "part": SKY, "full": BLUE}
WORDS = {"none": "no points", "part": "part of them", "full": "all points"}
HEADING = "commonest trouble"
ROW_IN, TOP_IN, BOTTOM_IN, GAP_IN = 0.32, 0.62, 0.16, 0.12
LABELS_IN, TROUBLE_IN = 3.0, 2.5  # at most
SIZE, SMALL = 9.5, 8.5


@styled
def points_figure(unit: str, tallies: Sequence[Tally]) -> Picture:
    """One bar an exercise, from top to bottom; beside it the commonest way in which points were lost."""
    height_in = TOP_IN + ROW_IN * max(1, len(tallies)) + BOTTOM_IN
    labels = [_cut(t.exercise, LABELS_IN, SIZE) for t in tallies]
    commonest = [f"{len(t.symptoms[0].students)}× {t.symptoms[0].name}" if t.symptoms else "" for t in tallies]
    troubles = [_cut(trouble, TROUBLE_IN, SMALL) for trouble in commonest]
    left_in = 2 * GAP_IN + max([width_in(label, SIZE) for label in labels], default=0.0)
    bars_in = WIDTH_IN - left_in - 2 * GAP_IN - max(width_in(trouble, SMALL) for trouble in [HEADING, *troubles])
    figure = new_figure(height_in)
    axes = figure.add_axes((left_in / WIDTH_IN, BOTTOM_IN / height_in, bars_in / WIDTH_IN,
                            (height_in - TOP_IN - BOTTOM_IN) / height_in))
    axes.set(xlim=(0, bars_in), ylim=(max(1, len(tallies)) - 0.5, -0.5))  # x in inches
    axes.axis("off")
    for row, (tally, label, trouble) in enumerate(zip(tallies, labels, troubles, strict=True)):
        _draw_bar(axes, row, tally, bars_in)
        axes.text(-GAP_IN, row, label, ha="right", va="center", fontsize=SIZE)
        axes.text(bars_in + GAP_IN, row, trouble, ha="left", va="center", fontsize=SMALL)
    _draw_head(figure, unit, max([len(t.points) for t in tallies], default=0), left_in, bars_in)
    counts = {t.exercise: f"{t.none} none, {t.part} part, {t.full} all" for t in tallies if not t.withdrawn}
    parts = [f"{t.exercise}: {counts.get(t.exercise, 'withdrawn')}" for t in tallies]
    return Picture(figure, f"Students by points in {unit}. {'; '.join(parts)}.")


def _draw_bar(axes: Axes, row: int, tally: Tally, bars_in: float) -> None:
    left_in = 0.0
    if tally.withdrawn:
        axes.text(0.0, row, "withdrawn", ha="left", va="center", fontsize=SMALL, color=FAINT)
    for name, shade in SHADES.items():
        count = getattr(tally, name)
        long_in = bars_in * count / len(tally.points)
        axes.barh(row, long_in, left=left_in, height=0.72, color=shade, edgecolor="white", linewidth=0.8)
        text = first_that_fits([str(count) if count else ""], long_in - 0.06, SMALL)
        axes.text(left_in + long_in / 2, row, text, ha="center", va="center", fontsize=SMALL, color=ink_on(shade))
        left_in += long_in


def _draw_head(figure: Figure, unit: str, n_students: int, left_in: float, bars_in: float) -> None:
    """Title, and what the colours and the right column are."""
    height_in = figure.get_figheight()
    title = f"{unit}: points of {n_students} student{'' if n_students == 1 else 's'}"
    figure.text(GAP_IN / WIDTH_IN, 1 - 0.2 / height_in, _literally(title), fontsize=10.5, fontweight="bold", va="center")
    x_in, y = left_in, 1 - 0.46 / height_in
    for name, shade in SHADES.items():
        figure.text(x_in / WIDTH_IN, y, "■", color=shade, fontsize=11, va="center")
        figure.text((x_in + 0.16) / WIDTH_IN, y, WORDS[name], fontsize=SMALL, va="center")
        x_in += 0.16 + width_in(WORDS[name], SMALL) + 0.25
    figure.text((left_in + bars_in + GAP_IN) / WIDTH_IN, y, HEADING, fontsize=SMALL, va="center", color=FAINT)


def _cut(text: str, room_in: float, size: float) -> str:
    text = _literally(text)
    return first_that_fits([text, *(text[:end] + "…" for end in range(len(text) - 1, 0, -1))], room_in, size)


def _literally(text: str) -> str:
    """Dollar signs begin no formula."""
    return text.replace("$", r"\$")
