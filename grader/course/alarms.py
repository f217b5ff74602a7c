"""What a person who marks should look at, as data: marking writes it into its record, reports group it by kind."""

from dataclasses import dataclass

CONTRADICTED, CONTAINED, MALFORMED, UNUSUAL, NO_PYTHON, OTHER = ALARMS = (
    "contradicted traffic", "contained", "malformed evidence", "code that no exercise needs",
    "cells that Python cannot read", "other alarms")

RENAMED = "the file is called"  # how a remark begins that is no reason to look


def renamed(file: str) -> str:
    """The remark on a file that is not called as it was handed out."""
    return f"the file is called {file}, which is fine: it counts under any name"


@dataclass(frozen=True)
class Alarm:
    """kind: one of ALARMS. about: the exercise or the cell, "" for the whole submission. text: what a person reads."""

    kind: str
    text: str
    about: str = ""
