"""Mistakes that a run survives, told in a line each: no wait, a tensor changed too early, one tensor for several outputs."""

from collections import defaultdict
from collections.abc import Iterable

from utils.deadlocks.errors import ranks_in_words
from utils.trace.calls import CallFacts
from utils.trace.source import to_line

MOST_LINES = 3
_WORDS = {
    "forgotten": "Note: {ranks} never waited for {op}: its tensors may not be ready ({source}).",
    "changed": "Note: {ranks} changed a tensor of {op} before its wait() ({source}).",
    "repeats": "Note: {ranks} gave {op} the same tensor several times to fill: the parts overwrite each other ({source}).",
}


def oversights_in(events: Iterable[tuple[int, str, dict]]) -> list[str]:
    """Of what the ranks reported (rank, kind, fields): a line for each such call of the program's own code."""
    calls: dict[tuple[int, int], CallFacts] = {}
    ranks: dict[tuple, set[int]] = defaultdict(set)  # (what is wrong, operation, place) -> who did it

    def note(what: str, rank: int, number: int) -> None:
        facts = calls[rank, number]
        if facts.is_direct and facts.source:
            ranks[what, facts.op, facts.source].add(rank)

    for rank, kind, fields in events:
        if kind == "call":
            calls[rank, fields["number"]] = fields["facts"]
            if fields["facts"].repeats:
                note("repeats", rank, fields["number"])
        elif kind == "forgotten":
            for number in fields["numbers"]:
                note("forgotten", rank, number)
        elif kind == "wait" and fields.get("changed"):
            note("changed", rank, fields["number"])
    lines = [_WORDS[what].format(ranks=ranks_in_words(sorted(who)), op=op, source=to_line(source))
             for (what, op, source), who in ranks.items()]
    left_out = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"Note: and {left_out} more."] if left_out > 0 else [])
