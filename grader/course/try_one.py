"""Try one exercise: its reference, skeleton and cells, and each of its mistakes; what the tests ask of it, and no more."""

import argparse
import difflib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ("test_exercises", "test_notebooks", "test_credit", "test_seen", "test_simulation")
STOPPED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the exercise, for example ring_all_gather")
    parser.add_argument("--every-case", action="store_true",
                        help="each mistake in all public cases, not only in a telling one")


def run(arguments: argparse.Namespace) -> int:
    """0: all is well. 1: something is not. 2: there is no such exercise."""
    names = sorted(path.name for path in (ROOT / "grader" / "exercises").glob("[0-9]*/*") if path.is_dir())
    if arguments.name not in names:
        close = difflib.get_close_matches(arguments.name, names, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        print(f"there is no exercise called {arguments.name!r}{hint}", file=sys.stderr)
        return 2
    options = ["--every-case"] if arguments.every_case else []
    files = [f"tests/{name}.py" for name in FILES]
    try:
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rf", "--exercise", arguments.name, *options, *files],
                              cwd=ROOT).returncode and 1
    except KeyboardInterrupt:
        return STOPPED
