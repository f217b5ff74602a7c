"""What was run where: docs/tried.csv has a row for each run, written by the run itself; docs/tried.md is its table.

Usage: python tools/tried.py run WHAT [--python PATH] [--in SYSTEM] -- COMMAND ...   (its row goes to build/tried.csv)
       python tools/tried.py keep [FILE ...]                   (rows of build/tried.csv into docs/tried.csv, and the table)
A row replaces an earlier one of the same system, Python, torch and WHAT. Needs Python 3.11 and nothing else.
"""

import argparse
import csv
import datetime
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRESH, KEPT, PAGE = ROOT / "build" / "tried.csv", ROOT / "docs" / "tried.csv", ROOT / "docs" / "tried.md"
COLUMNS = ("what", "system", "python", "torch", "when", "seconds", "outcome", "command")
SAME = ("what", "system", "python", "torch")
OF_PYTEST = re.compile(r"\d+ (?:passed|failed)[^=]*?(?= in [\d.]+s)")
HEAD = """# What was tried

Each row was written by the run that it tells of: `python tools/tried.py run` runs a command and notes what came of it. A
system that has no row was not tried. [Where to run the course](where-to-run.md) tells how to begin on each.

| what | system | Python | torch | when | took | outcome |
|---|---|---|---|---|---|---|
"""
COMMANDS = """
## The commands

To run one again, put `python tools/tried.py run WHAT --` before it.

"""


def run(what: str, command: list[str], python: str | None = None, system: str | None = None) -> int:
    """Run `command`, pass on what it prints, and note in build/tried.csv what came of it. Returns its exit status."""
    began, said, python = time.monotonic(), [], python or str(ROOT / ".venv" / "bin" / "python")
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace")
    for line in process.stdout:
        print(line, end="", flush=True)
        said += OF_PYTEST.findall(line)
    status, outcome = process.wait(), "; then ".join(said)  # a test that failed may have been run once more
    if status or not outcome:
        outcome = f"failed (exit status {status}) {outcome}".strip() if status else "works"
    note({"what": what, "system": system or this_system(), **versions(python), "when": datetime.date.today().isoformat(),
          "seconds": f"{time.monotonic() - began:.0f}", "outcome": outcome, "command": shlex.join(command)})
    return status


def note(row: dict[str, str]) -> None:
    """Into build/tried.csv."""
    FRESH.parent.mkdir(exist_ok=True)
    write(FRESH, merged(read(FRESH), [row]))


def keep(files: list[Path]) -> None:
    """The rows of these files into docs/tried.csv, and the table of all."""
    write(KEPT, merged(read(KEPT), [row for file in files for row in read(file)]))
    PAGE.write_text(page(read(KEPT)), encoding="utf-8")


def merged(rows: list[dict[str, str]], new: list[dict[str, str]]) -> list[dict[str, str]]:
    """Each run once, as it came out last, sorted."""
    latest = {tuple(row[column] for column in SAME): row for row in [*rows, *new]}
    return [latest[key] for key in sorted(latest)]


def page(rows: list[dict[str, str]]) -> str:
    lines = [f"| {row['what']} | {row['system']} | {row['python']} | {row['torch']} | {row['when']} | {row['seconds']} s "
             f"| {row['outcome']} |\n" for row in rows]
    commands = {row["what"]: row["command"] for row in rows}
    return HEAD + "".join(lines) + COMMANDS + "".join(f"- {what}: `{command}`\n" for what, command in commands.items())


def this_system() -> str:
    """Such as "Debian GNU/Linux 12, x86_64, 2 cores"."""
    try:
        release = platform.freedesktop_os_release()
        name = f"{release['NAME']} {release.get('VERSION_ID', '')}".strip()
    except OSError:  # macOS has no such file
        name = f"{platform.system()} {platform.release()}"
    return f"{name}, {platform.machine()}, {os.cpu_count()} cores"


def versions(python: str) -> dict[str, str]:
    """Of the Python that ran it, and of its torch; "?" where they are not there, as after an install that failed."""
    asked = "import platform; from importlib.metadata import version; print(platform.python_version(), version('torch'))"
    try:
        said = subprocess.run([python, "-c", asked], capture_output=True, text=True).stdout.split()
    except OSError:
        said = []
    return dict(zip(("python", "torch"), said or ("?", "?"), strict=True))


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, str]], columns: Sequence[str] = COLUMNS) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="do", required=True)
    running = commands.add_parser("run", usage="%(prog)s WHAT [--python PATH] [--in SYSTEM] -- COMMAND ...")
    running.add_argument("what")
    running.add_argument("--python", help="the interpreter whose versions are noted")
    running.add_argument("--in", dest="system", help="another system than this one, where the command enters it")
    commands.add_parser("keep").add_argument("files", nargs="*", type=Path, default=[FRESH])
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    asked = parser.parse_args(arguments[:end])
    if asked.do == "keep":
        keep(asked.files)
        return 0
    if not arguments[end + 1:]:
        running.error("which command? It stands behind --")
    return run(asked.what, arguments[end + 1:], asked.python, asked.system)


if __name__ == "__main__":
    sys.exit(main())
