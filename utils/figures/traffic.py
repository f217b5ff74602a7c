"""Who sent how much to whom: matrices of bytes, one row a sender, one column a receiver."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex

from utils.figures.colours import BLUE, FAINT, INK, ink_on
from utils.figures.style import WIDTH_IN, Picture, byte_unit, human_bytes, inch_axes, new_figure, styled, text_width_in
from utils.figures.traced import Trace

COLOURS = LinearSegmentedColormap.from_list("bytes", ["#F4F9FD", "#56B4E9", BLUE, "#00304F"])
LARGEST_WITH_NUMBERS = 16
Matrix = Sequence[Sequence[float]]


@styled
def traffic_figure(trace: Trace) -> Picture:
    """Bytes from each rank (row) to each other rank (column).

    Left: what the program gave to send. Right, where the system counts it: what crossed the wire, collectives and all.
    """
    given = "bytes given to send", trace.traffic_matrix()
    if trace.wire_bytes is None:
        return _matrices([given])
    wire = "on the wire, counted by the system", trace.wire_bytes
    return _matrices([given, wire] if trace.of(op="send") else [wire])


@styled
def matrix_figure(matrix: Matrix, title: str) -> Picture:
    """One matrix of bytes.

    Shapes: matrix (W, W), row = sender, column = receiver.
    Raises: ValueError if it is not square.
    """
    if any(len(row) != len(matrix) for row in matrix):
        raise ValueError(f"a traffic matrix has as many columns as rows: {len(matrix)} rows, "
                         f"but rows of {sorted({len(row) for row in matrix})}")
    return _matrices([(title, matrix)])


@styled
def matrices_figure(matrices: Mapping[str, Matrix], of: str = "bytes") -> Picture:
    """Two matrices side by side, in one scale of colours, so that they can be compared.

    matrices: title → (W, W), row = sender, column = receiver; of: what they count, bytes or another thing. What isn't
    bytes is also added up below each column.
    Raises: ValueError unless there are two square ones.
    """
    if len(matrices) != 2 or any(len(row) != len(matrix) for matrix in matrices.values() for row in matrix):
        raise ValueError(f"two matrices, each with as many columns as rows, please; got {dict(matrices)}")
    most = max(size for matrix in matrices.values() for row in matrix for size in row)
    return _matrices(list(matrices.items()), most, of)


def _matrices(matrices: list[tuple[str, Matrix]], most: float | None = None, of: str = "bytes") -> Picture:
    n_ranks = len(matrices[0][1])
    side_in = 3.0 if n_ranks <= 4 else 3.5 if n_ranks <= 8 or len(matrices) > 1 else 5.5
    sums_in = 0.3 if of != "bytes" else 0.0
    height_in, width_in = side_in + 1.05 + sums_in, WIDTH_IN if len(matrices) > 1 else max(side_in + 1.2, 4.8)
    figure = new_figure(height_in, width_in)
    each = all(_fits_with_units(np.array(matrix, dtype=float), side_in / n_ranks, of) for _, matrix in matrices)
    for i, (title, matrix) in enumerate(matrices):
        axes = inch_axes(figure, 0.85 + i * WIDTH_IN / 2, 0.15 + sums_in, side_in, side_in)
        _draw_matrix(axes, np.array(matrix, dtype=float), title, side_in, most, of, each)
    return Picture(figure, " ".join(_in_words(title, matrix, of) for title, matrix in matrices))


def _draw_matrix(axes: Axes, matrix: np.ndarray, title: str, side_in: float, most: float | None, of: str,
                 each: bool) -> None:
    """most: the entry of the darkest colour; None for the largest of this matrix. each: every number has its unit."""
    n_ranks, most = len(matrix), most or matrix.max() or 1.0
    nothing_to_itself = np.eye(n_ranks, dtype=bool) & (matrix == 0)
    axes.imshow(np.ma.masked_where(nothing_to_itself, matrix), cmap=COLOURS, vmin=0, vmax=most)
    every = range(0, n_ranks, -(-n_ranks // 16))
    axes.set(xticks=every, yticks=every, xlabel="to rank", ylabel="from rank")
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    for edge in np.arange(0.5, n_ranks - 1):
        axes.axhline(edge, color="white", linewidth=1)
        axes.axvline(edge, color="white", linewidth=1)
    if of != "bytes":
        for rank, total in enumerate(matrix.sum(0)):
            axes.text(rank, n_ranks - 0.4, f"sum {_shown(total, of)}", ha="center", va="top", fontsize=8.5)
    unit = _write_numbers(axes, matrix, side_in / n_ranks, most, of, each)
    axes.set_title(title + (f" ({unit})" if unit else ""), pad=10)


def _write_numbers(axes: Axes, matrix: np.ndarray, cell_in: float, most: float, of: str, each: bool) -> str:
    """Bytes in each cell: with units if `each`, else in one unit, which is returned; nothing in a large matrix."""
    if len(matrix) > LARGEST_WITH_NUMBERS:
        return f"darkest: {human_bytes(matrix.max())}"
    size = _text_size(cell_in)
    unit, texts = "", [[_shown(value, of) for value in row] for row in matrix]
    if not each:
        fine, coarse = (_in_one_unit(matrix, decimals) for decimals in (2, 1))
        unit, texts = fine if _widest_in(fine[1], size) <= cell_in - 0.05 else coarse
    for (i, j), value in np.ndenumerate(matrix):
        ink = ink_on(to_hex(COLOURS(value / most))) if of == "bytes" else INK if value < 0.65 * most else "white"
        text = texts[i][j] if value else "·" if i == j else "0"
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink if value else FAINT)
    return unit


def _fits_with_units(matrix: np.ndarray, cell_in: float, of: str) -> bool:
    return _widest_in([[_shown(value, of) for value in row] for row in matrix], _text_size(cell_in)) <= cell_in - 0.05


def _text_size(cell_in: float) -> float:
    return min(8.5, max(6.5, cell_in * 18))


def _widest_in(texts: list[list[str]], fontsize: float) -> float:
    return max(text_width_in(text, fontsize) for row in texts for text in row)


def _in_one_unit(matrix: np.ndarray, decimals: int) -> tuple[str, list[list[str]]]:
    """The unit of the largest entry, and every entry counted in it: 12, 3.8, <0.1, or with two decimals 3.75, <0.01."""
    size, unit = byte_unit(matrix.max())

    def shown(count: float) -> str:
        least = 10**-decimals
        return f"<{least:g}" if count < least else f"{count:.{decimals}f}" if count < 10 else f"{count:.0f}"

    return unit, [[shown(count) for count in row] for row in matrix / size]


def _shown(value: float, of: str) -> str:
    return human_bytes(value) if of == "bytes" else f"{value:,.0f}"


def _in_words(title: str, matrix: Matrix, of: str) -> str:
    n_ranks, total, unit = len(matrix), sum(map(sum, matrix)), "" if of == "bytes" else f" {of}"
    pairs = [(matrix[i][j], i, j) for i in range(n_ranks) for j in range(n_ranks) if matrix[i][j]]
    shown = [f"rank {i} to {j} {_shown(size, of)}" for size, i, j in sorted(pairs, reverse=True)[:8]]
    more = f", and {len(pairs) - 8} smaller" if len(pairs) > 8 else ""
    return f"Traffic between {n_ranks} ranks, {title}: {_shown(total, of)}{unit} in all. {', '.join(shown)}{more}."
