"""Reports as they travel from a rank: several at once, and what a call is only the first time that it is made."""

from collections.abc import Iterator
from typing import Any

import msgspec

from utils.trace.calls import CallFacts


class ReportReader:
    """Makes whole reports of what one rank's recorder sends."""

    def __init__(self):
        self._facts: dict[int, CallFacts] = {}

    def unpacked(self, kind: str, fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """(kind, fields) of each; of a call its number, time and facts.

        Raises: LookupError, TypeError or ValueError for what no recorder sends.
        """
        if kind == "batch":
            for part, part_fields in fields["items"]:
                yield from self.unpacked(part, part_fields)
        elif kind == "facts":
            self._facts[fields["id"]] = read_facts(fields["facts"])
        elif kind == "call":
            yield kind, fields | {"facts": self._facts[fields["facts"]]}
        else:
            yield kind, fields


def as_reported(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a report that was kept as JSON.  Raises: ValueError as read_facts does."""
    return fields | {"facts": read_facts(fields["facts"])} if kind == "call" else fields


def read_facts(value: Any) -> CallFacts:
    """As they were before they travelled.  Raises: ValueError for what is none."""
    try:
        return msgspec.convert(value, CallFacts)
    except msgspec.ValidationError as error:
        raise ValueError(f"no facts of a call: {error}") from None
