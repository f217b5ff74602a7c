"""What a unit's notebook says of its exercises, in their contracts: which path each is on, its title, minutes and points."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CORE, FURTHER, CHALLENGE = PATHS = "core", "further", "challenge"
_FACTS = re.compile(rf"^(?:★ )?({'|'.join(PATHS)})\b.*?(\d+) minutes", re.M)


@dataclass(frozen=True)
class Contract:
    """An exercise as its notebook has it. path: one of PATHS; minutes: as stated, for writing it."""

    name: str
    title: str
    path: str
    minutes: int
    points: float


def contracts_in(notebook: Path) -> list[Contract]:
    """In the order of the notebook; none where it cannot be read."""
    try:
        return contracts_of(json.loads(notebook.read_text(encoding="utf-8"))["cells"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def contracts_of(cells: Sequence[dict]) -> list[Contract]:
    """The same, of its cells.  Raises: LookupError, TypeError or AttributeError where these have another form."""
    texts = {cell.get("id", ""): "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"}
    graded = [cell["metadata"]["nbgrader"] for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade")]
    return [_contract(facts["grade_id"].removesuffix("_check"), facts["points"], texts) for facts in graded]


def _contract(name: str, points: float, texts: dict[str, str]) -> Contract:
    text = texts.get(f"{name}-contract", "")
    path, minutes = facts.groups() if (facts := _FACTS.search(text)) else (FURTHER, 0)
    return Contract(name, text.partition("\n")[0].lstrip("# ").strip() or name, path, int(minutes), points)


# ── the core path ──

WORDS_A_MINUTE = 150
NOT_READ = "need not read"
_ASKS = re.compile(r"predict\.(?:number|choice)\(")
_FOLDED = re.compile(r"<details>.*?</details>", re.S)


@dataclass(frozen=True)
class CorePath:
    """What a unit asks of a reader of the core path. reading: minutes for the text and the cells that are tagged "core"."""

    exercises: int
    writing: int
    reading: int

    @property
    def minutes(self) -> int:
        return self.writing + self.reading


def core_path(cells: Sequence[dict]) -> CorePath:
    """A minute for 150 words and for each cell that is run and looked at, half for a question; contracts count with their
    exercises, and a cell of helpers says that it need not be read.

    Raises: as contracts_of.
    """
    core = [contract for contract in contracts_of(cells) if contract.path == CORE]
    own = {name for contract in core for name in (contract.name, f"{contract.name}_check")}
    read = [cell for cell in cells if CORE in cell["metadata"].get("tags", [])
            and cell["metadata"].get("nbgrader", {}).get("grade_id") not in own]
    return CorePath(len(core), sum(contract.minutes for contract in core), round(sum(map(minutes_of, read))))


def minutes_of(cell: dict) -> float:
    """Of reading it, and of looking at what it shows."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return len(_FOLDED.sub("", source).split()) / WORDS_A_MINUTE
    return 0 if NOT_READ in source else 0.5 if _ASKS.search(source) else 1
