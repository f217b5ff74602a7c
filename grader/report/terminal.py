"""A report as text for a terminal."""

import itertools
import textwrap
from collections.abc import Sequence

from grader.course.shown import plain, shorten
from grader.report.tally import Summary, Tally, listed
from utils.figures.tables import Column, Table
from utils.languages.choice import translated

BLOCKS = "▁▂▃▄▅▆▇█"
SYMPTOMS_SHOWN = 2
COMMAND = "python -m grader "  # what begins so is there to be copied, and never cut
LONGEST_REQUEST = 600


def as_text(summary: Summary, width: int) -> str:
    """The whole report, lines no wider than `width`."""
    n_all = len(summary.submissions)
    headline = f"{summary.unit}: {n_all} submission{'' if n_all == 1 else 's'}, {len(summary.marked)} marked"
    times = [f"Seconds to mark a submission: {summary.times()}"] if summary.times() else []
    parts = [[headline], str(_table(summary)).split("\n"), _symptoms(summary), times, _looks(summary)]
    if not summary.whole_class:
        parts = [*parts[:2], _wrapped(_details(summary), width), times]
    parts += [_wrapped(_requests(summary), width)]
    return "\n\n".join("\n".join(line if line.lstrip().startswith(COMMAND) else shorten(translated(line), width)
                                 for line in lines)
                       for lines in parts if any(lines))


def histogram(tally: Tally) -> str:
    """One block a bin, a dot for none: ▃·▅·█."""
    if tally.withdrawn:
        return translated("withdrawn")
    bins = tally.histogram()
    return "".join(BLOCKS[round((len(BLOCKS) - 1) * count / max(bins))] if count else "·" for count in bins)


def _table(summary: Summary) -> Table:
    rows = [{"exercise": t.exercise, "path": t.path, "students": len(t.points), "mean": t.mean, "max": f"{t.max_points:g}",
             "histogram": histogram(t), **{name: None if t.withdrawn else getattr(t, name)
                                                       for name in ("none", "part", "full")}} for t in summary.tallies]
    return Table(rows, ["exercise", "path", "students", Column("mean", show="{:.2f}".format),
                        Column("max", "of", align="right"), Column("histogram", "0 … all"), "none", "part",
                        Column("full", "all")])


def _symptoms(summary: Summary) -> list[str]:
    lines = []
    for exercise, n, symptoms in summary.symptoms(SYMPTOMS_SHOWN):
        lines += [f"  {exercise}", *(f"    {_counted(len(s.students), n)}: {translated(s.words)}" for s in symptoms)]
    return ["Commonest symptoms", *lines] if lines else []


def _counted(some: int, of: int) -> str:
    return translated(f"{some} of {of}")


def _details(summary: Summary) -> list[str]:
    """Of each student all that the report knows, where it is about a few."""
    lines = []
    for one in summary.submissions:
        looks = [look for look in summary.looks if look.student == one.student]
        lines += [str(one), *(f"  {', '.join(names)}: {reason}" for reason, names in one.reasons.items())]
        lines += [f"  {one.late}"] if one.late else []
        lines += [f"  Remark: {remark}" for remark in one.only_remarks]
        lines += [f"  {look.kind.capitalize()}: {look.words}" for look in looks]
    return lines


def _requests(summary: Summary) -> list[str]:
    if not summary.requests and not summary.bad_requests:
        return []
    n_open = len(summary.open_requests)
    lines = [f"Requests of students ({n_open} open, {len(summary.requests) - n_open} answered)"]
    for request in summary.open_requests:
        words = " ".join(request.words.split())
        lines += [f"  {summary.called(request.student)}, {request.exercise}, {summary.points_of(request)}: "
                  f"{words[:LONGEST_REQUEST]}{'…' if len(words) > LONGEST_REQUEST else ''}",
                  f"    {request.replay}", f"    To answer, write a line “Answer: …” below it in {request.file}"]
    return [*lines, *(f"  {words}" for words in summary.bad_requests)]


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Lines of any length over several, each further in than the first; a command stays on one."""
    return [part for line in lines for part in ([line] if line.lstrip().startswith(COMMAND) else textwrap.wrap(
        plain(line), width, subsequent_indent="    " + " " * (len(line) - len(line.lstrip())), break_on_hyphens=False))]


def _looks(summary: Summary) -> list[str]:
    lines = ["Needs a look" + (f" ({len(summary.looks)})" if summary.looks else ": nothing")]
    for kind, looks in itertools.groupby(summary.same_looks, key=lambda look: look[0]):  # they come sorted by kind
        lines += [f"  {kind}", *(f"    {_whose([*map(summary.called, students)])}: {words}" for _, words, students in looks)]
    return lines


def _whose(students: Sequence[str]) -> str:
    return students[0] if len(students) == 1 else f"{len(students)} submissions ({listed(students)})"
