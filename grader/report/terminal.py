"""A report as text for a terminal."""

import unicodedata
from collections.abc import Iterator

from grader.report.tally import KINDS, Summary, Symptom, Tally
from utils.figures.tables import Column, Table

BLOCKS = "▁▂▃▄▅▆▇█"
SYMPTOMS_SHOWN = 2


def as_text(summary: Summary, width: int) -> str:
    """The whole report, lines no wider than `width`."""
    parts = [[_headline(summary)], str(_table(summary)).split("\n"), _symptoms(summary), [_times(summary)], _looks(summary)]
    return "\n\n".join("\n".join(shorten(line, width) for line in lines) for lines in parts if any(lines))


def histogram(tally: Tally) -> str:
    """One block a bin, a dot for none: ▃·▅·█."""
    bins = tally.histogram()
    return "".join(BLOCKS[round((len(BLOCKS) - 1) * count / max(bins))] if count else "·" for count in bins)


def shorten(text: str, width: int) -> str:
    """Cut to `width` columns, with nothing in it that a terminal would obey."""
    text, used, kept = plain(text), 0, []
    for character in text:
        used += columns(character)
        if used > width:
            while kept and used > width - 1:
                used -= columns(kept.pop())
            return "".join(kept).rstrip() + "…"
        kept.append(character)
    return text


def plain(text: str) -> str:
    """Without control characters, changes of direction and half characters."""
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in _TURNS else c
                   for c in text)


_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def columns(character: str) -> int:
    """How wide a terminal shows a character."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _headline(summary: Summary) -> str:
    n_marked, n_all = len(summary.marked), len(summary.submissions)
    return f"{summary.unit}: {n_all} submission{'s' * (n_all != 1)}, {n_marked} marked"


def _table(summary: Summary) -> Table:
    rows = [{"exercise": t.exercise, "students": len(t.points), "mean": t.mean, "max": f"{t.max_points:g}",
             "histogram": histogram(t), "none": t.none, "part": t.part, "full": t.full} for t in summary.tallies]
    return Table(rows, ["exercise", "students", Column("mean", show="{:.2f}".format), Column("max", "of", align="right"),
                        Column("histogram", "0 … all"), "none", "part", Column("full", "all")])


def _symptoms(summary: Summary) -> list[str]:
    found = [(t, t.symptoms[:SYMPTOMS_SHOWN]) for t in summary.tallies if t.symptoms]
    lines = [line for t, symptoms in found for line in (f"  {t.exercise}", *(f"    {_counted(s, t)}" for s in symptoms))]
    return ["Commonest symptoms", *lines] if lines else []


def _counted(symptom: Symptom, tally: Tally) -> str:
    return f"{len(symptom.students)} of {len(tally.points)}: {symptom.words}"


def _times(summary: Summary) -> str:
    times = summary.times()
    return f"Seconds to mark a submission: median {times[0]:.0f}, longest {times[1]:.0f} ({times[2]})" if times else ""


def _looks(summary: Summary) -> list[str]:
    return ["Needs a look" + (f" ({len(summary.looks)})" if summary.looks else ": nothing"), *_look_lines(summary)]


def _look_lines(summary: Summary) -> Iterator[str]:
    for kind in KINDS:
        found = [look for look in summary.looks if look.kind == kind]
        if found:
            yield f"  {kind}"
            yield from (f"    {look.student}: {look.words}" for look in found)
