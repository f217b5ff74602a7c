"""What a unit's marks say: points, commonest symptoms, times, and what needs a person's look."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", help="the unit's folder name, such as 01_collectives")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the files go (reports/UNIT)")
    parser.add_argument("--student", action="append", metavar="NAME", help="only this student; may be given several times")


def run(arguments: argparse.Namespace) -> int:
    raise NotImplementedError
