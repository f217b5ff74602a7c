"""The published tables that lie in utils/costs/data, as lists of dictionaries."""

import csv
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def table_names() -> list[str]:
    """The names that read_table knows, in alphabetical order."""
    return sorted(path.stem for path in DATA.glob("*.csv"))


def read_table(name: str) -> list[dict]:
    """The rows of utils/costs/data/<name>.csv; numbers become int or float, empty cells None.

    name: with or without ".csv", such as "links".
    Raises: ValueError for an unknown name, with the known ones.
    """
    stem = name.removesuffix(".csv")
    if stem not in table_names():
        raise ValueError(f"no table called {name!r}; known: {', '.join(table_names())}")
    return read_rows(DATA / f"{stem}.csv")


def read_rows(path: str | Path) -> list[dict]:
    """The rows of a CSV file; numbers become int or float, empty cells None.  Raises: OSError."""
    with open(path, encoding="utf-8", newline="") as file:
        return [{key: parsed(text) for key, text in row.items()} for row in csv.DictReader(file)]


def parsed(text: Any) -> Any:
    """A cell's text as the number it spells, if it spells one; what is no text (a line that ends early) as it is."""
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
