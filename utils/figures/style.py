"""The one look of all figures: fonts, sizes, bytes in words, and Picture, which shows itself as the value of any cell."""

import base64
import functools
import html
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from PIL import Image

from utils.figures.colours import FAINT, INK, PALE

BYTE_UNITS = {1024: ("B", "KiB", "MiB", "GiB", "TiB"), 1000: ("B", "kB", "MB", "GB", "TB")}
WIDTH_IN = 9.0  # 900 pixels in a notebook
DPI = 200  # twice what the notebook shows, for sharp screens
# In JupyterLab's dark theme, unless printed: white is nearly black, hues stay.
DARK = ("<style>@media screen { [data-jp-theme-light=false] img.drawn "
        "{ filter: invert(.945) hue-rotate(180deg) brightness(1.25) } }</style>")

STYLE = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9.5,
    "axes.titlesize": 10.5, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.titlepad": 8,
    "axes.labelsize": 9.5, "axes.edgecolor": FAINT, "axes.labelcolor": INK, "text.color": INK,
    "xtick.color": INK, "ytick.color": INK, "xtick.labelsize": 9, "ytick.labelsize": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "grid.color": PALE, "grid.linewidth": 0.8, "legend.frameon": False, "legend.fontsize": 9,
    "figure.facecolor": "white", "savefig.facecolor": "white", "hatch.linewidth": 0.6,
    "svg.hashsalt": "many ranks",  # the same picture, the same file
}


@dataclass(frozen=True)
class Picture:
    """A figure that shows itself in a notebook, and says in words what it shows.

    figure: a matplotlib Figure that pyplot knows nothing of; words: the text for readers who do not see it.
    """

    figure: Figure
    words: str

    @functools.cached_property
    def png(self) -> bytes:
        """The picture as a PNG file: twice the size at which a notebook shows it, 256 colours."""
        with in_style():
            raw = io.BytesIO()
            self.figure.savefig(raw, format="rgba", dpi=DPI)
        width, height = (int(inches * DPI) for inches in self.figure.get_size_inches())
        image = Image.frombytes("RGBA", (width, height), raw.getvalue()).convert("RGB")
        small = io.BytesIO()
        image.quantize(256, dither=Image.Dither.NONE).save(small, format="PNG", dpi=(DPI, DPI))  # larger if optimize=True
        return small.getvalue()

    @property
    def svg(self) -> bytes:
        """The picture as an SVG file, letters drawn as shapes: made several times as fast as a PNG."""
        with in_style():
            file = io.BytesIO()
            self.figure.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write the picture to `path`; its suffix (.png, .svg, .pdf) chooses the format. Returns the path."""
        with in_style():
            self.figure.savefig(path, dpi=DPI)
        return Path(path)

    def _repr_png_(self):
        width, height = (round(inches * 100) for inches in self.figure.get_size_inches())
        return self.png, {"width": width, "height": height, "alt": self.words}

    def _repr_html_(self) -> str:
        return self._image("png", self.png)

    def _image(self, kind: str, data: bytes) -> str:
        width = round(self.figure.get_size_inches()[0] * 100)
        return (f'<img class="drawn" src="data:image/{kind};base64,{base64.b64encode(data).decode()}" '
                f'alt="{html.escape(self.words, quote=True)}" '
                f'style="width:{width}px;max-width:100%;height:auto;background:white">{DARK}')

    def __repr__(self) -> str:
        return self.words


def figure_html(picture: Picture) -> str:
    """The HTML that shows `picture` as one block of a page."""
    return f"<div>{picture._repr_html_()}</div>"


def moving_html(picture: Picture) -> str:
    """The same for a view that is drawn anew again and again."""
    return f"<div>{picture._image('svg+xml', picture.svg)}</div>"


def in_style():
    """A context in which matplotlib draws in the course's style, whatever style the notebook has chosen."""
    return matplotlib.style.context(["default", STYLE])


styled = in_style()  # as a decorator: the function draws in the course's style


def new_figure(height_in: float, width_in: float = WIDTH_IN, **settings) -> Figure:
    """A white figure, inches high and wide, without pyplot. settings: for Figure, such as layout="constrained"."""
    return Figure(figsize=(width_in, height_in), dpi=100, **settings)


def inch_axes(figure: Figure, left_in: float, bottom_in: float, width_in: float, height_in: float) -> Axes:
    """Axes whose frame lies this many inches from the left and from the bottom of the figure."""
    all_width_in, all_height_in = figure.get_size_inches()
    return figure.add_axes((left_in / all_width_in, bottom_in / all_height_in, width_in / all_width_in,
                            height_in / all_height_in))


def plot(height_in: float) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, labels and legend kept apart and away from the edges."""
    figure = new_figure(height_in, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    return figure, figure.add_subplot()


def canvas(height_in: float, width_in: float = WIDTH_IN) -> tuple[Figure, Axes]:
    """A figure for drawings: axes without frame in which one unit is one inch, the origin at the lower left."""
    figure = new_figure(height_in, width_in)
    axes = inch_axes(figure, 0, 0, width_in, height_in)
    axes.set(xlim=(0, width_in), ylim=(0, height_in))
    axes.axis("off")
    return figure, axes


@functools.lru_cache(maxsize=4096)
def text_width_in(text: str, size: float) -> float:
    """Inches that `text` takes on one line at `size` points."""
    return TextPath((0, 0), text, size=size).get_extents().width / 72 if text.strip() else 0.0


def first_that_fits(texts: Iterable[str], width_in: float, size: float) -> str:
    """The first of `texts` no wider than `width_in` inches at `size` points, else the empty string."""
    return next((text for text in texts if text_width_in(text, size) <= width_in), "")


def byte_unit(n_bytes: float, base: int = 1024) -> tuple[int, str]:
    """The largest unit that `n_bytes` fills: how many bytes it has, and its name."""
    power, names = 0, BYTE_UNITS[base]
    while abs(n_bytes) >= base ** (power + 1) and power < len(names) - 1:
        power += 1
    return base**power, names[power]


def human_bytes(n_bytes: float | None, base: int = 1024) -> str:
    """Bytes as people read them: 512 B, 1.5 KiB, 64 MiB, or with base 1000 1.6 kB, 67.1 MB; a dash for None."""
    if n_bytes is None:
        return "–"
    size, unit = byte_unit(n_bytes, base)
    count = n_bytes / size
    digits = 0 if size == 1 or count >= 100 or count == int(count) else 1
    return f"{count:.{digits}f} {unit}"
