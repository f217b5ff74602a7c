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
