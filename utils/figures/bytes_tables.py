"""The table of bytes per rank that a trace shows."""

from typing import Any

from utils.figures.style import human_bytes
from utils.figures.tables import Column, Table
from utils.figures.traced import Trace


def bytes_table(trace: Trace) -> Table:
    """Per rank: calls, bytes by the formula, given to the transport and on the wire, and the time it stood still (ms).

    The columns of the wire appear only where the system counted it (trace.wire_bytes is not None).
    """
    columns = [
        Column("rank"), Column("calls"), Column("formula", "by formula", show=human_bytes),
        Column("given", "given to send", show=human_bytes), Column("wire", "on the wire", show=human_bytes),
        Column("ratio", "wire/formula", show=lambda ratio: f"{ratio:.3f}"),
        Column("blocked", "blocked", "ms", show="{:.1f}".format),
        Column("waiting", "waiting", "ms", show="{:.1f}".format),
    ]
    if trace.wire_bytes is None:
        columns = [column for column in columns if column.key not in ("wire", "ratio")]
    return Table([_bytes_row(trace, rank) for rank in trace.ranks], columns)


def _bytes_row(trace: Trace, rank: int) -> dict[str, Any]:
    calls, formula, wire = trace.of(rank), trace.bytes_sent(rank), trace.wire_sent(rank)
    return {
        "rank": rank, "calls": len(calls), "formula": formula, "given": sum(c.bytes_given for c in calls),
        "wire": wire, "ratio": wire / formula if wire is not None and formula else None,
        "blocked": 1e3 * sum(c.blocked_s for c in calls), "waiting": 1e3 * sum(c.waiting_s for c in calls),
    }
