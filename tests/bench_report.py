"""`make bench ARGS=report`: each ratio as it came out last and the time before, with machine and day, as one page."""

import csv
import datetime
import platform
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from tests.course import ROOT
from tools.tried import this_system

KEPT, PAGE = ROOT / "docs" / "bench.csv", ROOT / "docs" / "bench.md"
HEAD = """# What was measured

Each row is the ratio of two things that were measured in one run, each the median of several rounds. *Before* is the same
ratio of the run before. `make bench ARGS=report` measures all again and writes this page. To measure some again, name them:
`make bench ARGS="report start rings"`.

| ratio | measured | before | wanted | met | the two things | when | machine |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One ratio. Numbers are text, as they are printed."""

    name: str
    ratio: str
    wanted: str
    met: str
    detail: str = ""
    before: str = ""
    when: str = ""
    machine: str = ""


def keep(measured: list[Row]) -> None:
    """Into docs/bench.csv, in the place of the same rows of before, and the page of all."""
    kept = {row.name: row for row in read(KEPT)}
    today = datetime.date.today().isoformat()
    machine = f"{this_system()}, Python {platform.python_version()}, torch {torch.__version__}"
    for row in measured:
        before = kept[row.name].ratio if row.name in kept else ""
        kept[row.name] = Row(row.name, row.ratio, row.wanted, row.met, row.detail, before, today, machine)
    with KEPT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, kept.values()))
    PAGE.write_text(page(list(kept.values())), encoding="utf-8")


def page(rows: list[Row]) -> str:
    cells = ((row.name, row.ratio, row.before, row.wanted, row.met, row.detail, row.when, row.machine) for row in rows)
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in cells)


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(**row) for row in csv.DictReader(file)]
