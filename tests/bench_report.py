"""`make bench ARGS=report`: each ratio as it came out last and the time before, with machine and day, as one page."""

import datetime
import platform

import torch

from tests.course import ROOT
from tools.tried import read, this_system, write

KEPT, PAGE = ROOT / "docs" / "bench.csv", ROOT / "docs" / "bench.md"
COLUMNS = ("name", "ratio", "wanted", "met", "detail", "before", "when", "machine")
SHOWN = ("name", "ratio", "before", "wanted", "met", "detail", "when", "machine")
HEAD = """# What was measured

Each row is the ratio of two things that were measured in one run, each the median of several rounds. *Before* is the same
ratio of the run before. `make bench ARGS=report` measures all again and writes this page. To measure some again, name them:
`make bench ARGS="report start rings"`.

| ratio | measured | before | wanted | met | the two things | when | machine |
|---|---|---|---|---|---|---|---|
"""


def keep(measured: list[dict[str, str]]) -> None:
    """Into docs/bench.csv, in the place of the same rows of before, and the page. measured: without the last three."""
    kept = {row["name"]: row for row in read(KEPT)}
    today = datetime.date.today().isoformat()
    machine = f"{this_system()}, Python {platform.python_version()}, torch {torch.__version__}"
    for row in measured:
        before = kept.get(row["name"], {}).get("ratio", "")
        kept[row["name"]] = row | {"before": before, "when": today, "machine": machine}
    write(KEPT, [*kept.values()], COLUMNS)
    PAGE.write_text(page([*kept.values()]), encoding="utf-8")


def page(rows: list[dict[str, str]]) -> str:
    return HEAD + "".join(f"| {' | '.join(row[column] for column in SHOWN)} |\n" for row in rows)
