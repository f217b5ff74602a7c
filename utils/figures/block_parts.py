"""The thirteen parts of a transformer block that keep something for its backward pass, and the tensors between them."""

import itertools
from collections.abc import Sequence

from matplotlib.axes import Axes

from utils.figures.bars import GROUPS
from utils.figures.colours import CYCLE, FAINT, GREY, INK
from utils.figures.shapes import arrow, box, line, tile, write
from utils.figures.style import Picture, canvas, styled

# of each half: its parts, and the elements at each position of the tensor in front of each part and behind the last one
HALVES = (
    (("attention_norm", "qkv", "attention.scores", "attention.softmax", "attention.dropout", "attention.mix", "out",
      "attention_dropout"), ("h", "h", "3h", "a·s", "a·s", "a·s", "h", "h", "h")),
    (("mlp_norm", "up", "gelu", "down", "mlp_dropout"), ("h", "h", "4h", "4h", "h", "h")),
)
BOX_IN, GAP_IN, LEFT_IN = (0.75, 0.5), 0.26, 0.2
MIDDLES, BETWEEN_IN = (2.15, 0.65), 1.23  # the heights of the two rows, and of the line between them
KEY_LEFT_IN = 6.75
CORE, MIX = "attention.", "attention.mix"


@styled
def block_parts_figure() -> Picture:
    """A TransformerBlock from left to right, first its attention half, then its MLP, with all that flows between the parts.

    Parts have the colours of the groups of activation_bars, and all parts of attention's core the colour of the core.
    """
    figure, axes = canvas(3.0)
    ends = [_draw_half(axes, middle, parts, flows) for middle, (parts, flows) in zip(MIDDLES, HALVES, strict=True)]
    line(axes, (0.02, MIDDLES[0]), (LEFT_IN, MIDDLES[0]), INK, 1.0)
    path = [(ends[0], MIDDLES[0]), (ends[0] + 0.12, MIDDLES[0]), (ends[0] + 0.12, BETWEEN_IN), (0.06, BETWEEN_IN),
            (0.06, MIDDLES[1]), (LEFT_IN, MIDDLES[1])]  # from the first sum to the second half
    for start, stop in itertools.pairwise(path):
        line(axes, start, stop, INK, 1.0)
    arrow(axes, (ends[1], MIDDLES[1]), (ends[1] + 0.45, MIDDLES[1]), INK, 1.0, head=7, shrink=0)
    for number, (group, colour) in enumerate(zip(GROUPS, CYCLE, strict=False)):  # the key, right of the second half
        low = MIDDLES[1] + 0.28 - 0.21 * number
        tile(axes, (KEY_LEFT_IN, low), (0.22, 0.14), colour)
        write(axes, (KEY_LEFT_IN + 0.3, low + 0.07), group, 8.5, ha="left")
    return Picture(figure, "A transformer block. v goes from qkv to attention.mix. " + " Then ".join(
        f"{flows[0]} elements at each position → " + " → ".join(
            f"{part} → {flow}" for part, flow in zip(parts, flows[1:], strict=True)) + ", added to the half's input."
        for parts, flows in HALVES))


def _draw_half(axes: Axes, middle: float, parts: Sequence[str], flows: Sequence[str]) -> float:
    """One row of parts, and its input's way around them to the sum.  Returns where the sum's box ends, at the right."""
    step = BOX_IN[0] + GAP_IN
    first, low = LEFT_IN + GAP_IN, middle - (0.68 if MIX in parts else 0.48)
    for number, flow in enumerate(flows):
        left = first + number * step - GAP_IN
        arrow(axes, (left, middle), (left + GAP_IN, middle), INK, 1.0, head=7, shrink=0)
        write(axes, (left + GAP_IN / 2 - 0.02, middle + 0.13), flow, 8)
    for number, part in enumerate(parts):
        split = part.replace("_", "_\n").replace(".", ".\n")
        box(axes, (first + (number + 0.5) * step - GAP_IN / 2, middle), BOX_IN, split, _colour(part), GREY)
    end = first + len(parts) * step + 0.09  # the sum
    box(axes, (end, middle), (0.18, 0.22), "+")
    for start, stop in (((LEFT_IN, middle), (LEFT_IN, low)), ((LEFT_IN, low), (end, low))):
        line(axes, start, stop, FAINT, 1.0)
    arrow(axes, (end, low), (end, middle - 0.11), FAINT, 1.0, head=7, shrink=0)
    of_core = [number for number, part in enumerate(parts) if part.startswith(CORE)]
    if of_core:
        left, right = first + of_core[0] * step, first + of_core[-1] * step + BOX_IN[0]
        tile(axes, (left - 0.04, middle - 0.33), (right - left + 0.08, 0.66), edge=INK, linewidth=1, linestyle=(0, (3, 2)))
        write(axes, ((left + right) / 2, middle + 0.47), "core of attention: has no parameters", 8.5)
        write(axes, (left - 0.08, middle + 0.34), "q, k, v:", 8, ha="right")
        _draw_v(axes, middle, (left - 0.04 - GAP_IN / 2, right - BOX_IN[0] / 2))
    return end + 0.09


def _draw_v(axes: Axes, middle: float, ends: tuple[float, float]) -> None:
    """The way of v, from between qkv and the scores to mix."""
    start, end = ends
    for one, other in (((start, middle), (start, middle - 0.46)), ((start, middle - 0.46), (end, middle - 0.46))):
        line(axes, one, other, FAINT, 1.0)
    arrow(axes, (end, middle - 0.46), (end, middle - BOX_IN[1] / 2), FAINT, 1.0, head=7, shrink=0)
    write(axes, (start - 0.08, middle - 0.38), "v", 8)


def _colour(part: str) -> str:
    groups = list(GROUPS)
    name = "core of attention" if part.startswith(CORE) else next(name for name, kept in GROUPS.items() if part in kept)
    return CYCLE[groups.index(name)]
