"""A linear layer, or two of them, cut among ranks: whose are which numbers of x, W and y, and where ranks communicate."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Circle

from utils.figures.colours import CYCLE, FAINT, INK, PALE
from utils.figures.shapes import tile, write
from utils.figures.style import WIDTH_IN, Picture, canvas, styled, text_width_in

OUTPUTS, INPUTS = "outputs", "inputs"
ROWS_IN, SIZES_IN, GAP_IN, SIGN_IN = 0.55, (0.75, 1.2, 0.75), 0.14, 0.26  # batch; features before, between and behind
SEVERAL_IN = (0.6, 0.6, 0.6)  # the same if several weights multiply x: each result is as wide as its weight
ALONE_IN = (1.05, 1.75)  # features before and behind a layer that stands alone
HEIGHT_IN, LABEL_IN, MOST_RANKS = 2.15, 0.2, 6


@styled
def split_figure(cuts: Sequence[str], n_ranks: int = 3, gathered: bool = False,
                 names: tuple[str, str, str] = ("W₁", "GELU", "W₂"), roles: bool = False, backward: bool = False) -> Picture:
    """x Wᵀ = y for each layer, coloured by the rank that has the numbers; grey is whole on every rank.

    cuts: for each layer, which features are divided: "outputs" (x whole, y in parts) or "inputs" (x in parts, y a sum of
    whole terms); two layers: "outputs", then "inputs". gathered: parts of the last y are gathered instead of kept.
    names: of two layers, the first weight (or several, with blanks between, that all multiply x), what is done to the
    result, the second weight. roles: what f and g do is written over them. backward: the gradients of two layers instead,
    from that of the result on the left to that of the input on the right; it has the form of the forward pass.
    Raises: ValueError for other cuts, or more ranks than colours.
    """
    cuts = tuple(cuts)
    if (cuts not in ((OUTPUTS,), (INPUTS,), (OUTPUTS, INPUTS)) or not 2 <= n_ranks <= MOST_RANKS
            or (backward and cuts != (OUTPUTS, INPUTS))):
        raise ValueError(f"can draw ('outputs',), ('inputs',) or ('outputs', 'inputs'), backward only the last, on 2 to "
                         f"{MOST_RANKS} ranks, not {cuts} on {n_ranks}")
    figure, axes = canvas(HEIGHT_IN)
    pen, words = _Pen(axes, n_ranks), []
    sizes = SIZES_IN if len(cuts) == 2 else ALONE_IN if cuts[0] == OUTPUTS else SIZES_IN[1:]
    if len(names[0].split()) > 1 and len(cuts) == 2:
        sizes = SEVERAL_IN
    said = _backward_names(names) if backward else _forward_names(names) if len(cuts) == 2 else ONE_LAYER
    pen.block(said.given, sizes[0], ROWS_IN, "" if cuts[0] == OUTPUTS else "columns")
    for number, cut in enumerate(cuts):
        weights = said.weights[number].split()
        if cut == OUTPUTS:
            if not gathered:
                pen.circle(said.circles[0], "copy" * roles)
            pen.sign("·")
            for index, weight in enumerate(weights):
                if index:
                    pen.sign(",", SIGN_IN / 2)
                pen.block(weight, sizes[number + 1], sizes[number], "columns")
            pen.sign("=")
            if len(weights) == 1:
                pen.block(said.product, sizes[number + 1], ROWS_IN, "columns")
            for index, weight in enumerate(weights if len(weights) > 1 else ()):
                if index:
                    pen.sign(",", SIGN_IN / 2)
                pen.block(_letter(weight), sizes[number + 1], ROWS_IN, "columns")
            if len(cuts) == 2:
                pen.arrow(said.arrow)
                pen.block(said.between if len(weights) == 1 else "results", sizes[number + 1], ROWS_IN, "columns")
        else:
            pen.sign("·")
            pen.block(weights[0], sizes[number + 1], sizes[number], "rows")
            pen.sign("=")
            pen.terms(f"terms of {said.result}", sizes[number + 1])
            pen.circle(said.circles[1], "sum" * roles)
            pen.block(said.result, sizes[number + 1], ROWS_IN, "")
        words.append(_in_words(weights, cut, said.circles, backward))
    if gathered:
        pen.sign("all-gather →", 1.1)
        pen.block(f"{said.result}, whole", sizes[len(cuts)], ROWS_IN, "")
        words.append("an all-gather makes the result whole")
    pen.key()
    figure.set_size_inches(WIDTH_IN, HEIGHT_IN * WIDTH_IN / axes.get_xlim()[1])  # one scale both ways
    return Picture(figure, f"A {'backward pass' if backward else 'multiplication'} on {n_ranks} ranks: {'; '.join(words)}.")


@dataclass(frozen=True)
class _Names:
    """What is written over the blocks, in the circles and over the arrow, from left to right."""

    given: str
    circles: tuple[str, str]
    weights: tuple[str, ...]
    product: str
    arrow: str
    between: str
    result: str


ONE_LAYER = _Names("x", ("f", "g"), ("Wᵀ",), "y", "", "", "y")


def _forward_names(names: tuple[str, str, str]) -> _Names:
    first, between, second = names
    weights = " ".join(f"{weight}ᵀ" for weight in first.split()), f"{second}ᵀ"
    result = "z" if len(first.split()) == 1 else "y"
    return _Names("x", ("f", "g"), weights, "y", between, f"{between}(y)", result)


def _backward_names(names: tuple[str, str, str]) -> _Names:
    first, between, second = names
    return _Names("dz", ("g", "f"), (second, first), f"d({between}(y))", f"· {between}′(y)", "dy", "dx")


def _letter(weight: str) -> str:
    """W_qᵀ → q"""
    return weight.removesuffix("ᵀ").removeprefix("W_")


def _typeset(name: str) -> str:
    """W_outᵀ with a subscript."""
    return re.sub(r"_(\w+?)(?=ᵀ|\b)", r"$_\\mathrm{\1}$", name)


def _in_words(weights: list[str], cut: str, circles: tuple[str, str], backward: bool) -> str:
    names = [weight.removesuffix("ᵀ") for weight in weights]
    name = f"{names[0]} is" if len(names) == 1 else f"each of {', '.join(names)} is"
    how = cut if not backward else INPUTS if cut == OUTPUTS else OUTPUTS
    if cut == OUTPUTS:
        return f"{name} divided by {how}, and so is its result"
    return f"{name} divided by {how}, and {circles[1]} sums its results, one of each rank"


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
        write(self.axes, (self.x + width / 2, bottom + height + LABEL_IN / 2), _typeset(name))
        self.x += width + GAP_IN

    def terms(self, name: str, width: float) -> None:
        """The terms of a sum, each whole in shape, one a rank, one behind the other."""
        top = self.middle + ROWS_IN / 2 + 0.06 * (self.n_ranks - 1)
        write(self.axes, (self.x + 0.1 + width / 2 - 0.06 * (self.n_ranks - 1), top + LABEL_IN / 2), name)
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

    def circle(self, name: str, role: str = "") -> None:
        """f or g, and over it what it does."""
        centre = self.x + 0.14, self.middle
        self.axes.add_patch(Circle(centre, 0.16, facecolor="white", edgecolor=INK, linewidth=1.4))
        write(self.axes, centre, name, style="italic", fontweight="bold")
        write(self.axes, (centre[0], self.middle + 0.3), role, 9)
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
