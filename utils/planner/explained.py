"""A number that knows where it comes from: its formula, the formula with the values filled in, and its parts."""

import functools
import html
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

KNOWN = {"ceil": math.ceil, "floor": math.floor, "max": max, "min": min, "log2": math.log2, "sqrt": math.sqrt,
         "exp": math.exp}
SUPERSCRIPTS = {"**2": "²", "**3": "³"}
PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
LETTERS = re.compile(r"[A-Za-z_]\w*")
CURRENCIES = ("$", "€", "£")
SCALED = ("FLOP", "FLOP/s", "B/s")


class Explained(float):
    """A float with a unit and an explanation. Arithmetic with it gives plain floats; `explain` and `total` make new ones.

    formula: in the words of the field ("2·P/t"); values: what stands for each letter, numbers or Explained ones.
    parts: what it is the sum of. `text` is all of it as lines; a notebook shows it by itself.
    """

    name: str
    unit: str
    expression: str
    values: Mapping[str, Any]
    parts: tuple["Explained", ...]
    source: str

    def __new__(cls, value: float, unit: str = "", name: str = "", expression: str = "", values: Mapping | None = None,
                parts: tuple["Explained", ...] = (), source: str = ""):
        number = super().__new__(cls, value)
        number.unit, number.name, number.expression, number.source = unit, name, expression, source
        number.values, number.parts = values or {}, parts
        return number

    @property
    def value(self) -> float:
        """The plain number, in `unit`."""
        return float(self)

    @property
    def formula(self) -> str:
        """The formula in letters; of a sum, the names of its parts."""
        return _pretty(self.expression) or " + ".join(part.name for part in self.parts)

    @property
    def filled(self) -> str:
        """The formula with the values filled in."""
        if not self.expression:
            return " + ".join(map(str, self.parts))
        return _pretty(LETTERS.sub(self._value_of, self.expression))

    def _value_of(self, letter: re.Match) -> str:
        value = self.values.get(letter.group())
        return letter.group() if value is None else plain(value)

    @property
    def text(self) -> str:
        """The explanation, a line for each number: name, value, formula, the formula with values; parts are indented."""
        return "\n".join("  " * depth + number._line() for depth, number in self._tree())

    def _line(self) -> str:
        named = f"{self.name}: " if self.name else ""
        return named + " = ".join(filter(None, (str(self), self.steps))) + (f"   [{self.source}]" if self.source else "")

    @property
    def steps(self) -> str:
        """The formula, and with its values: "2·P/t = 2·7e9/8"; the parts of a sum have lines of their own."""
        return " = ".join(dict.fromkeys(filter(None, (self.formula, self.filled if self.expression else ""))))

    def _tree(self, depth: int = 0, shown: set[int] | None = None) -> Iterable[tuple[int, "Explained"]]:
        """The number and what is below it; what several formulas use stands below the first of them."""
        shown = set() if shown is None else shown
        yield depth, self
        letters = LETTERS.findall(self.expression)
        used = [value for letter, value in self.values.items()
                if isinstance(value, Explained) and (value.expression or value.parts) and letter in letters]
        for number in (*self.parts, *used):
            if id(number) not in shown:
                shown.add(id(number))
                yield from number._tree(depth + 1, shown)

    def part(self, name: str) -> "Explained":
        """The part of this name.  Raises: KeyError with the names there are."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"{self.name} has no part {name!r}, only {', '.join(part.name for part in self.parts)}")

    def __str__(self) -> str:
        return in_words(self, self.unit)

    def __repr__(self) -> str:
        return self._line()

    def _repr_pretty_(self, printer, cycle) -> None:
        printer.text(self.text)

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr>{number._cells(depth)}</tr>" for depth, number in self._tree())
        return f"<table><tbody>{rows}</tbody></table>"

    def _cells(self, depth: int) -> str:
        name, value, formula, source = map(html.escape, (self.name, str(self), self.steps, self.source))
        return (f'<td style="text-align:left;padding-left:{1.5 * depth + 0.5}em">{name}</td>'
                f'<td style="text-align:right;white-space:nowrap;padding:0 1em"><b>{value}</b></td>'
                f'<td style="text-align:left">{formula}' + f" <small>[{source}]</small>" * bool(source) + "</td>")


def explain(name: str, unit: str, expression: str, source: str = "", /, **values: Any) -> Explained:
    """The value of a formula, which it remembers: explain("weights", "bytes", "2*P/t", P=7e9, t=8).

    expression: a Python expression over the names of `values` (numbers, or Explained ones, which stay visible below it),
    with ceil, floor, max, min, log2, sqrt, exp. As the number is computed from what is shown, the two cannot differ.
    """
    return Explained(eval(_compiled(expression), _GLOBALS, values), unit, name, expression, values, (), source)


def total(name: str, unit: str, parts: Iterable[Explained], source: str = "") -> Explained:
    """The sum of parts of one unit, which it shows."""
    parts = tuple(parts)
    return Explained(sum(map(float, parts)), unit, name, "", None, parts, source)


def given(value: float, unit: str = "", name: str = "", source: str = "") -> Explained:
    """A number that was not computed but read: measured, published, chosen."""
    return Explained(value, unit, name, source=source)


_GLOBALS = {"__builtins__": {}, **KNOWN}


@functools.cache
def _compiled(expression: str):
    return compile(expression, "<formula>", "eval")


def _pretty(expression: str) -> str:
    for ascii_text, sign in {**SUPERSCRIPTS, "*": "·", "-": "−"}.items():
        expression = expression.replace(ascii_text, sign)
    return re.sub(r"(?<=\de)−", "-", expression)


def plain(value: float) -> str:
    """A number as it stands in a formula: 12,288, 174.6e9, 0.515."""
    value = float(value)
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if value.is_integer() and abs(value) < 1e7:
        return f"{value:,.0f}"
    if 1e-3 <= abs(value) < 1e7:
        return f"{value:,.5g}" if abs(value) < 1e5 else f"{value:,.0f}"
    exponent = math.floor(math.log10(abs(value)) / 3) * 3
    return f"{value / 10 ** exponent:.5g}e{exponent}"


def in_words(value: float, unit: str) -> str:
    """A number and its unit as people write them: 34.9 GB (32.5 GiB), 175 billion parameters, 141 PFLOP, 51.4 %, 1.2 ms."""
    value = float(value)
    if unit == "bytes":
        return _bytes(value)
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit in CURRENCIES:
        return f"{unit}{value:,.0f}" if abs(value) >= 100 else f"{unit}{value:,.2f}"
    if unit == "parameters" and abs(value) >= 1e6:
        return f"{value / 1e9:,.4g} billion parameters" if abs(value) >= 1e9 else f"{value / 1e6:.4g} million parameters"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{value * 1e3:.4g} ms" if abs(value) >= 1e-3 else f"{value * 1e6:.4g} µs"
    if unit in SCALED:
        factor, prefix = next(((factor, prefix) for factor, prefix in PREFIXES if abs(value) >= factor), (1, ""))
        return f"{value / factor:,.4g} {prefix}{unit}"
    return f"{plain(value)} {unit}".rstrip()


def _bytes(value: float) -> str:
    """GB are 10⁹, GiB 2³⁰: both are said, because papers differ."""
    for letter, power in (("T", 4), ("G", 3), ("M", 2), ("k", 1)):
        if abs(value) >= 1000 ** power:
            return f"{value / 1000 ** power:,.4g} {letter}B ({value / 1024 ** power:,.4g} {letter.upper()}iB)"
    return f"{value:,.4g} bytes"
