"""`make bench ARGS=report`: each ratio as it came out last and the time before, with machine and day, as one page."""

import datetime
import platform
from itertools import groupby
from operator import itemgetter

import torch

from tests.course import ROOT
from tools.tried import read, this_system, write

KEPT, PAGE = ROOT / "docs" / "bench.csv", ROOT / "docs" / "bench.md"
COLUMNS = ("name", "ratio", "spread", "wanted", "met", "detail", "before", "when", "machine")
SHOWN = ("name", "ratio", "spread", "before", "wanted", "met", "detail", "when", "machine")
HEAD = """# What was measured

Each row is the ratio of two things that were measured in one run, each the median of several rounds. A report measures three
times and keeps the median; *from … to* are the smallest and the largest of the three. *Before* is the median of the report
before. `make bench ARGS=report` measures all again and writes this page. To measure some again, name them:
`make bench ARGS="report start rings"`.

| ratio | measured | from … to | before | wanted | met | the two things | when | machine |
|---|---|---|---|---|---|---|---|---|
"""


def keep(measured: list[dict[str, str]]) -> None:
    """Into docs/bench.csv, in the place of the same rows of before, and the page. measured: without the last three.

    Of rows of one name, which were measured one after the other, the one in the middle is kept.
    """
    kept = {row["name"]: row for row in read(KEPT)}
    today = datetime.date.today().isoformat()
    machine = f"{this_system()}, Python {platform.python_version()}, torch {torch.__version__}"
    for name, rows in groupby(sorted(measured, key=itemgetter("name")), itemgetter("name")):
        by_ratio = sorted(rows, key=lambda row: float(row["ratio"]))
        spread = f"{by_ratio[0]['ratio']} … {by_ratio[-1]['ratio']}"
        before = kept.get(name, {}).get("ratio", "")
        kept[name] = by_ratio[len(by_ratio) // 2] | {"spread": spread, "before": before, "when": today, "machine": machine}
    write(KEPT, [*kept.values()], COLUMNS)
    PAGE.write_text(page([*kept.values()]), encoding="utf-8")


def page(rows: list[dict[str, str]]) -> str:
    return HEAD + "".join(f"| {' | '.join(row[column] for column in SHOWN)} |\n" for row in rows)
