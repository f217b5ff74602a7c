"""Marking once more: on the cases of an earlier time, or one exercise alone, whose verdict is put beside the others."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat

from grader.course.cell import exercise_of, is_check
from grader.course.journal import Result, digest_of

OF_SOLUTION = "the solution "  # so begins what mark.py remarks on one exercise, whose name follows


@dataclass(frozen=True)
class Again:
    """What of a submission is marked, where it is not all of it on fresh cases.

    only: these exercises; all, if there are none. seed: what the cases are drawn from, None for a fresh number; seeds: of
    exercises for which it is another one. counts: the file among several notebooks whose marks counted; None: whichever
    earns most.
    """

    only: tuple[str, ...] = ()
    seed: int | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    counts: str | None = None

    def asks_for(self, exercise: str) -> bool:
        return not self.only or exercise in self.only

    @property
    def digest(self) -> str:
        """A short name for it; "" where everything is marked on fresh cases."""
        return "" if self == ANEW else digest_of(repr((self.only, self.seed, sorted(self.seeds.items()))).encode())


ANEW = Again()


def record_in(folder: Path, unit: str) -> dict[str, Any] | None:
    """What marking wrote of a submission; None if it did not, or if that cannot be read."""
    try:
        record = json.loads((folder / f"{unit}.marks.json").read_text(encoding="utf-8"))
        return record if isinstance(record["exercises"], dict) and isinstance(record["seed"], int) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def put_beside(folder: Path, result: Result, only: tuple[str, ...]) -> Result:
    """A whole result: what `folder` holds, with these exercises as they were marked now.

    Raises: OSError, ValueError or LookupError where the folder no longer holds a marked notebook and its record.
    """
    notebook = nbformat.read(folder / f"{result.unit}.ipynb", as_version=4)
    before, now = json.loads((folder / f"{result.unit}.marks.json").read_text(encoding="utf-8")), result.record
    outputs = {exercise_of(cell): cell.outputs for cell in filter(is_check, nbformat.reads(result.notebook, 4).cells)}
    for cell in filter(is_check, notebook.cells):
        if exercise_of(cell) in only:
            cell.outputs = outputs[exercise_of(cell)]
    seeds = before.get("seeds", {}) | {name: now["seeds"].get(name, now["seed"]) for name in only}
    own = tuple(f"{OF_SOLUTION}{name} " for name in only)
    remarks = [remark for remark in before["remarks"] if not remark.startswith(own)]
    alarms = [alarm for alarm in before["alarms"] if alarm["about"] not in only]
    others = before["exercises"].keys() - set(only)
    record = before | {
        "remarks": list(dict.fromkeys([*remarks, *now["remarks"]])),
        "alarms": alarms + [one for one in now["alarms"] if one not in alarms and one["about"] not in others],
        "too_busy": [name for name in before.get("too_busy", []) if name not in only] + now["too_busy"],
        "peak_bytes": max(before["peak_bytes"], now["peak_bytes"]),
        "seeds": {name: seed for name, seed in seeds.items() if seed != before["seed"]},
        "exercises": before["exercises"] | {name: now["exercises"][name] for name in only},
    }
    return replace(result, notebook=nbformat.writes(notebook), record=record)
