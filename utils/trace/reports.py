"""Reports as they travel from a rank: several at once, and what a call is only the first time that it is made."""

from collections.abc import Iterator
from typing import Any


class Unfolding:
    """Makes whole reports of what one rank's recorder sends."""

    def __init__(self):
        self._facts: dict[int, dict[str, Any]] = {}

    def whole(self, kind: str, fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """(kind, fields) of each. Raises: LookupError or TypeError for what no recorder sends."""
        if kind == "batch":
            for part, part_fields in fields["items"]:
                yield from self.whole(part, part_fields)
        elif kind == "facts":
            self._facts[fields["id"]] = fields["facts"]
        elif kind == "call":
            yield kind, self._facts[fields["facts"]] | {"number": fields["number"], "time": fields["time"]}
        else:
            yield kind, fields
