"""The planner beside llm-analysis and DeepSpeed's estimators, each in its pinned version; tests/peers says more."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import venv
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from sysconfig import get_path

from tests.peers.ours import ANSWERS, layout_of, ours, questions, reason, sizes
from utils.planner.explained import in_words

ASK = Path(__file__).parent / "peers" / "ask.py"
THEY_NEED = ["einops", "fire", "hjson", "msgpack", "ninja", "packaging", "psutil", "py-cpuinfo", "pydantic", "tqdm"]


def asked(rows: list[dict]) -> list[float]:
    """What the peers answer today, in an environment that is gone afterwards; it borrows this one's torch."""
    peers = sorted({f"{row['peer']}=={row['version']}" for row in rows})
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))
        Path(get_path("purelib", vars={"base": folder}), "borrowed.pth").write_text(get_path("purelib") + "\n")
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        for what in (THEY_NEED, ["--no-deps", *peers]):
            subprocess.run([*install, *what], env={**os.environ, "DS_BUILD_OPS": "0"}, check=True, timeout=600)
        told = [{**{key: value for key, value in row.items() if key != "answer"}, **sizes(row)} for row in rows]
        done = subprocess.run([python, ASK], input=json.dumps(told), capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def show(rows: list[dict]) -> None:
    """A table for each question, below the reason of its differences."""
    for (peer, version, question), same in groupby(rows, key=lambda row: (row["peer"], row["version"], row["question"])):
        same = list(same)
        width = max(len(_case(row)) for row in same)
        print(f"\n{peer} {version}: {question}")
        print(textwrap.indent(textwrap.fill(reason(same[0]), 118), "  "))
        print(f"  {'':<{width}}{'peer':>16}{'planner':>16}   ratio   counted alike")
        for row in same:
            plain, alike = ours(row)
            numbers = "".join(f"{_short(number, row['unit']):>16}" for number in (row["answer"], plain))
            print(f"  {_case(row):<{width}}{numbers}{row['answer'] / plain:8.3f}{alike / row['answer']:16.9f}")


def _case(row: dict) -> str:
    attention = ", as in 2205.05198" * (row["settings"] == "paper")
    return f"{row['model']}, {layout_of(row)}{attention}".replace("micro-batch 1, ", "").replace(", micro-batch 1", "")


def _short(number: float, unit: str) -> str:
    return in_words(number, unit).partition(" (")[0].removesuffix(" parameters")


def freeze(rows: list[dict]) -> None:
    """Writes answers.csv."""
    with open(ANSWERS, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def bench_peers(line: Callable) -> None:
    """The planner's questions put to llm-analysis and DeepSpeed's estimators, fresh from PyPI."""
    rows = questions()
    try:
        answers = asked(rows)
    except subprocess.SubprocessError as error:
        print(f"     the peers could not be asked, for which PyPI is needed: {error}\n{error.stderr or ''}")
        return
    show([{**row, "answer": answer} for row, answer in zip(rows, answers, strict=True)])
    same = sum(row["answer"] == answer for row, answer in zip(rows, answers, strict=True))
    line("share of answers that are those of answers.csv", same / len(rows), ">= 1", same == len(rows), f"{len(rows)} asked")


if __name__ == "__main__":
    known = questions()
    if sys.argv[1:] == ["freeze"]:
        known = [{**row, "answer": answer} for row, answer in zip(known, asked(known), strict=True)]
        freeze(known)
    show(known)
