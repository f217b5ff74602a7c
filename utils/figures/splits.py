"""A linear layer, or two of them, cut among ranks: whose are which numbers of x, W and y, and where ranks communicate."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Circle

from utils.figures.colours import CYCLE, FAINT, INK, PALE
from utils.figures.shapes import tile, write
from utils.figures.style import Picture, canvas, styled, text_width_in

OUTPUTS, INPUTS = "outputs", "inputs"
ROWS_IN, SIZES_IN, GAP_IN, SIGN_IN = 0.55, (0.75, 1.2, 0.75), 0.14, 0.26  # batch; features before, between and behind
HEIGHT_IN, LABEL_IN, MOST_RANKS = 2.15, 0.2, 6


@styled
def split_figure(cuts: Sequence[str], n_ranks: int = 3, gathered: bool = False,
                 names: tuple[str, str, str] = ("W₁", "GELU", "W₂")) -> Picture:
    """x Wᵀ = y for each layer, coloured by the rank that has the numbers; grey is whole on every rank.

    cuts: for each layer, which features are divided: "outputs" (x whole, y in parts) or "inputs" (x in parts, y a sum of
    whole terms); two layers: "outputs", then "inputs". gathered: parts of the last y are gathered instead of kept.
    names: of two layers, the first weight (or several, with blanks between, that all multiply x), what is done to the
    result, the second weight.
    Raises: ValueError for other cuts, or more ranks than colours.
    """
    if tuple(cuts) not in ((OUTPUTS,), (INPUTS,), (OUTPUTS, INPUTS)) or not 2 <= n_ranks <= MOST_RANKS:
        raise ValueError(f"can draw ('outputs',), ('inputs',) or ('outputs', 'inputs') on 2 to {MOST_RANKS} ranks, not "
                         f"{tuple(cuts)} on {n_ranks}")
    figure, axes = canvas(HEIGHT_IN)
    pen, words = _Pen(axes, n_ranks), []
    sizes = SIZES_IN if len(cuts) == 2 or cuts[0] == OUTPUTS else SIZES_IN[1:]
    pen.block("x", sizes[0], ROWS_IN, "" if cuts[0] == OUTPUTS else "columns")
    for number, cut in enumerate(cuts):
        name = "W" if len(cuts) == 1 else names[2 * number]
        if cut == OUTPUTS:
            if not gathered:
                pen.circle("f")
            pen.sign("·")
            for weight in (weights := name.split()):
                pen.block(f"{weight}ᵀ", sizes[number + 1] / len(weights) ** 0.5, sizes[number], "columns")
            if len(weights) == 1:
                pen.sign("=")
                pen.block("y", sizes[number + 1], ROWS_IN, "columns")
            if len(cuts) == 2:
                pen.arrow(names[1])
                pen.block(f"{names[1]}(y)" if len(weights) == 1 else "heads", sizes[number + 1], ROWS_IN, "columns")
            divided = f"{name} is" if len(weights) == 1 else f"each of {', '.join(weights)} is"
            words.append(f"{divided} divided by outputs, and so is its result")
        else:
            pen.sign("·")
            pen.block(f"{name}ᵀ", sizes[number + 1], sizes[number], "rows")
            pen.sign("=")
            pen.terms(sizes[number + 1])
            pen.circle("g")
            pen.block("z" if len(cuts) == 2 else "y", sizes[number + 1], ROWS_IN, "")
            words.append(f"{name} is divided by inputs, and g sums its results, one of each rank")
    if gathered:
        pen.sign("all-gather →", 1.0)
        pen.block("y", sizes[len(cuts)], ROWS_IN, "")
        words.append("an all-gather makes the result whole")
    pen.key()
    return Picture(figure, f"A multiplication on {n_ranks} ranks: {'; '.join(words)}.")


class _Pen:
    """Draws from left to right, all in the middle of the height."""

    def __init__(self, axes: Axes, n_ranks: int):
        self.axes, self.n_ranks, self.x, self.middle = axes, n_ranks, 0.3, HEIGHT_IN / 2 + 0.1

    def block(self, name: str, width: float, height: float, cut: str) -> None:
        """A matrix: whole (cut ""), or in coloured columns or rows, one a rank."""
        bottom, n = self.middle - height / 2, self.n_ranks
        if not cut:
            self._part(self.x, bottom, width, height, PALE)
        for rank in range(n if cut else 0):
            if cut == "columns":
                self._part(self.x + rank * width / n, bottom, width / n, height, CYCLE[rank])
            else:
                self._part(self.x, bottom + (n - 1 - rank) * height / n, width, height / n, CYCLE[rank])
        write(self.axes, (self.x + width / 2, bottom + height + LABEL_IN / 2), name)
        self.x += width + GAP_IN

    def terms(self, width: float) -> None:
        """The terms of a sum, each whole in shape, one a rank, one behind the other."""
        for rank in reversed(range(self.n_ranks)):
            shift = 0.12 * (rank - (self.n_ranks - 1) / 2)
            self._part(self.x + shift + 0.1, self.middle - ROWS_IN / 2 - shift, width, ROWS_IN, CYCLE[rank])
        self.x += width + 0.2 + GAP_IN

    def sign(self, text: str, width: float = SIGN_IN) -> None:
        write(self.axes, (self.x + width / 2 - GAP_IN / 2, self.middle), text)
        self.x += width

    def arrow(self, text: str) -> None:
        """An arrow to the right, and over it what is done on the way."""
        width = text_width_in(text, 9.5) + 0.1
        write(self.axes, (self.x + width / 2, self.middle + 0.15), text)
        self.axes.annotate("", (self.x + width, self.middle), (self.x, self.middle),
                           arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.2})
        self.x += width + GAP_IN

    def circle(self, name: str) -> None:
        """f or g."""
        centre = self.x + 0.14, self.middle
        self.axes.add_patch(Circle(centre, 0.16, facecolor="white", edgecolor=INK, linewidth=1.4))
        write(self.axes, centre, name, style="italic", fontweight="bold")
        self.x += 0.3 + GAP_IN

    def key(self) -> None:
        """Which colour is which rank, below."""
        x = 0.3
        ranks = [(CYCLE[rank], f"rank {rank}") for rank in range(self.n_ranks)]
        for colour, text in [*ranks, (PALE, "the same on every rank")]:
            self._part(x, 0.13, 0.16, 0.14, colour)
            write(self.axes, (x + 0.24, 0.2), text, 8.5, ha="left", color=FAINT)
            x += 0.9
        self.axes.set_xlim(0, max(self.axes.get_xlim()[1], self.x))

    def _part(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        tile(self.axes, (x, y), (width, height), colour, "white", 1.2)
