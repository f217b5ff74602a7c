"""What the controls of a cell's widgets said last: they say it again when the cell is run again."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets
import traitlets
from IPython import get_ipython


@dataclass
class Kept:
    """Of one kernel.  values: (cell, how many widgets of this run of the cell came before) → what the controls said."""

    values: dict[tuple[str, int], list[Any]] = field(default_factory=dict)
    run: int = -1
    made: int = 0

    def place(self, cell: str, run: int) -> tuple[str, int]:
        """Where the next widget of the present run of a cell keeps its values."""
        self.run, self.made = run, self.made + 1 if run == self.run else 0
        return cell, self.made


def keep(controls: Sequence[ipywidgets.Widget]) -> None:
    """Give controls the values that they had when this cell was run before, where they still may, and remember new ones.

    Only where the front end tells which cell it runs, as JupyterLab does.
    """
    shell = get_ipython()
    cell = _cell_of(shell)
    if not cell:
        return
    if not hasattr(shell, "many_ranks_kept"):
        shell.many_ranks_kept = Kept()
    kept = shell.many_ranks_kept
    place = kept.place(cell, shell.execution_count)
    for control, value in zip(controls, kept.values.get(place, ()), strict=False):
        with contextlib.suppress(traitlets.TraitError):  # it is no choice any more
            control.value = value

    def remember(_: object) -> None:
        kept.values[place] = [control.value for control in controls]

    for control in controls:
        control.observe(remember, "value")


def _cell_of(shell: Any) -> str:
    """The id of the cell that runs now; empty where nobody says."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return (parent or {}).get("metadata", {}).get("cellId", "")
