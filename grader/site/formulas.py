"""Formulas of a text as pictures, drawn here: a page that is read without a network has nobody to ask for MathJax."""

import base64
import html
import io
import re

from matplotlib import mathtext
from matplotlib.font_manager import FontProperties

FORMULA = re.compile(r"(\$\$?)([^$\n]+)\1")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)
_POINTS = 12
_PLAINER = (  # what TeX has and mathtext has not
    (re.compile(r"\\frac(\w)(\w)"), r"\\frac{\1}{\2}"), (re.compile(r"\\bmod\b"), r"\\;\\mathrm{mod}\\;"),
    (re.compile(r"\\Big\b|\\Big(?=[()])"), ""), (re.compile(r"\\ge\b"), r"\\geq"), (re.compile(r"\\le\b"), r"\\leq"),
    (re.compile(r"\\ne\b"), r"\\neq"),
)


def with_pictures(markdown: str) -> str:
    """The text with an image for each formula, its TeX as the words.  Raises: ValueError for TeX that cannot be drawn."""
    parts = _CODE.split(markdown)
    return "".join(part if place % 2 else FORMULA.sub(_image, part) for place, part in enumerate(parts))


def _image(found: re.Match) -> str:
    tex = found[2].strip()
    plainer = tex
    for pattern, instead in _PLAINER:
        plainer = pattern.sub(instead, plainer)
    file = io.BytesIO()
    depth = mathtext.math_to_image(f"${plainer}$", file, prop=FontProperties(size=_POINTS), dpi=72, format="svg")
    data = base64.b64encode(file.getvalue()).decode()
    image = (f'<img class="formula" src="data:image/svg+xml;base64,{data}" alt="{html.escape(tex, quote=True)}" '
             f'style="vertical-align:-{depth:.0f}pt">')
    return f'<span class="displayed">{image}</span>' if found[1] == "$$" else image
