"""The blind hunt's programs: the right trainer and fifteen faults, five of which a reader's word draws.

The right one stands in the unit's solution notebook, with lines that say how it is broken: `# fault <id>: code` takes the
place of the line above it, `# fault <id>:` deletes that line, and `# fault <id>+: code` is put after it.
"""

import base64
import json
import random
import re
import zlib
from collections.abc import Collection
from pathlib import Path

from utils.trace.source import running_shell

ROOT = Path(__file__).resolve().parents[1]
UNIT, EXERCISE = "10_bug_hunt", "HuntedTrainer"
STORED = Path(__file__).resolve().with_name("hunt.txt")  # in the students' archive, so that nobody reads it by accident
KINDS = (  # one fault of each is drawn
    ("same-texts", "remainder", "token-mean"),
    ("gate", "balance", "dropout"),
    ("norms", "tied", "experts"),
    ("order", "race", "precision"),
    ("local-norm", "schedule", "resume"),
)
_MARK = re.compile(r"(?P<indent>\s*)# fault (?P<fault>[a-z-]+)(?P<after>\+?): ?(?P<code>.*)")
_EDGE = "### "  # how the lines begin between which a solution stands
EMPTY_CELL = '''from grader import draw_program


class HuntedTrainer:
    """Write your name between the quotes in the last line, and run this cell: your program takes its place."""

    def __init__(self, mesh, texts, settings):
        raise NotImplementedError("yours to write")


program = draw_program("")'''
PLACED = ("The program with your five bugs is now the text of this cell: run it. If your editor still shows the old text, "
          "run print(program) in a cell below, and paste what it prints over this cell.")


def has_faults(source: str) -> bool:
    """Whether a solution cell is the right program, with the lines that say how it is broken."""
    return any(_MARK.fullmatch(line) for line in source.split("\n"))


def program_with(source: str, faults: Collection[str]) -> str:
    """The program with these faults; with none, the right one."""
    lines: list[str] = []
    for line in source.split("\n"):
        mark = _MARK.fullmatch(line)
        if mark is None:
            lines += [] if line.startswith(_EDGE) else [line]
        elif mark["fault"] in faults:
            if not mark["after"]:
                lines.pop()
            lines += [mark["indent"] + mark["code"]] if mark["code"] else []
    return "\n".join(lines)


def drawn(word: str) -> tuple[str, ...]:
    """The five faults of a word, the same whenever it is asked."""
    numbers = random.Random(f"hunt {word}")
    return tuple(numbers.choice(kind) for kind in KINDS)


def draw_program(word: str) -> str:
    """The reader's program; run in a notebook's cell, it takes the place of the cell's text. The empty word draws none."""
    if not word:
        print("Write your name between the quotes, and run this cell again.")
        return ""
    program = f"# Drawn by draw_program({word!r}): five bugs\n{program_with(right_program(), drawn(word))}"
    if (shell := running_shell()) is not None:
        shell.set_next_input(program, replace=True)
        print(PLACED)
    return program


def right_program() -> str:
    """With its marks."""
    notebook = ROOT / "solutions" / UNIT / f"{UNIT}.ipynb"
    if not notebook.is_file():
        return zlib.decompress(base64.b64decode(STORED.read_text())).decode()
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return next("".join(cell["source"]) for cell in cells if cell["id"] == EXERCISE)


def stored() -> str:
    """The same for the students' archive."""
    return base64.b64encode(zlib.compress(right_program().encode())).decode()
