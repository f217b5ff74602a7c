"""Tables that read well as plain text and as HTML, and go into a file as CSV."""

import csv
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Column:
    """How one column is shown.

    key: the entry of each row; title, unit: its heading; align: "left" or "right" (numbers right when None);
    show: value -> text (plain numbers when None).
    """

    key: str
    title: str = ""
    unit: str = ""
    align: str | None = None
    show: Callable[[Any], str] | None = None

    @property
    def heading(self) -> str:
        return (self.title or self.key) + (f" ({self.unit})" if self.unit else "")


class Table:
    """Rows under headings; aligned text in a terminal, an HTML table in a notebook.

    rows: dictionaries, or sequences in the order of the columns.
    columns: Column objects or keys; the first row's keys when None.
    Raises: ValueError if a row's length differs from the number of columns.
    """

    def __init__(self, rows: Sequence[dict | Sequence], columns: Sequence[Column | str] | None = None):
        if columns is None:
            columns = list(rows[0]) if rows and isinstance(rows[0], dict) else []
        self.columns = [Column(c) if isinstance(c, str) else c for c in columns]
        self.rows = [_as_dict(row, self.columns) for row in rows]

    @property
    def cells(self) -> list[list[str]]:
        """The text of every cell, row by row."""
        return [[_shown(row.get(c.key), c) for c in self.columns] for row in self.rows]

    def aligns(self) -> list[str]:
        """"left" or "right" for each column."""
        return [column.align or self._usual_align(column.key) for column in self.columns]

    def _usual_align(self, key: str) -> str:
        numeric = all(isinstance(row.get(key), int | float | None) for row in self.rows)
        return "right" if numeric else "left"

    def __str__(self) -> str:
        grid = [[c.heading for c in self.columns], *self.cells]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        pads = [str.rjust if align == "right" else str.ljust for align in self.aligns()]
        lines = ["  ".join(pad(text, width) for text, width, pad in zip(row, widths, pads, strict=True)).rstrip()
                 for row in grid]
        lines.insert(1, "  ".join("─" * width for width in widths))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        aligns = self.aligns()
        head = _html_row("th", [c.heading for c in self.columns], aligns)
        body = "".join(_html_row("td", row, aligns) for row in self.cells)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"

    def to_csv(self, path: str | Path | None = None) -> str:
        """The rows as CSV, written to `path` if given: all entries, also those without a column, and numbers unrounded.

        The first line has the entries' keys.  Raises: OSError if the file cannot be written.
        """
        keys = list(dict.fromkeys([*(column.key for column in self.columns), *(key for row in self.rows for key in row)]))
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(keys)
        lines.writerows([[_in_file(row.get(key)) for key in keys] for row in self.rows])
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()


def _as_dict(row: dict | Sequence, columns: list[Column]) -> dict:
    if isinstance(row, dict):
        return row
    if len(row) != len(columns):
        raise ValueError(f"a row needs {len(columns)} values, one a column; got {len(row)}: {row!r}")
    return {column.key: value for column, value in zip(columns, row, strict=True)}


def _shown(value: Any, column: Column) -> str:
    if value is None:
        return "–"
    if column.show is not None:
        return column.show(value)
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return str(value)


def _in_file(value: Any) -> Any:
    """A number as Python reads it back; a number of a class of its own as well."""
    return float(value) if isinstance(value, float) else value


def _html_row(tag: str, texts: list[str], aligns: list[str]) -> str:
    cells = (f'<{tag} style="text-align:{align}">{html.escape(text)}</{tag}>'
             for text, align in zip(texts, aligns, strict=True))
    return f"<tr>{''.join(cells)}</tr>"
