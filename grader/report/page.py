"""A report as one HTML page (page.html) that needs nothing else, runs no script, and prints well."""

from typing import Any

from markupsafe import Markup

from grader.course.shown import plain
from grader.judging.html import fill_in
from grader.report.records import Submission
from grader.report.tally import KINDS, Summary
from utils.figures.style import Picture, figure_html, human_bytes

SYMPTOMS_SHOWN = 5


def page(summary: Summary, picture: Picture) -> str:
    """The whole page. Every text in it is escaped; the browser is told to run nothing."""
    places = {submission.student: f"s{number}" for number, submission in enumerate(summary.submissions)}
    return fill_in(__file__, _plain, summary=summary, facts=_facts(summary), figure=Markup(figure_html(picture)),
                   symptoms_shown=SYMPTOMS_SHOWN, kinds=KINDS, places=places, result=_result)


def _plain(value: Any) -> Any:
    """Without characters that would turn the rest of the page around."""
    return value if isinstance(value, Markup) else plain(str(value))


def _facts(summary: Summary) -> str:
    facts = [f"{len(summary.submissions)} submissions, {len(summary.marked)} marked"]
    if times := summary.times():
        facts.append(f"seconds to mark one: {times}")
    totals = [submission.points for submission in summary.marked]
    if totals:
        most = max(submission.max_points for submission in summary.marked)
        facts.append(f"mean {sum(totals) / len(totals):.1f} of {most:g} points")
    return "; ".join(facts)


def _result(submission: Submission) -> str:
    """"12 of 16 points, 40 s, 812 MiB", or why there are none."""
    if submission.not_marked:
        return submission.not_marked
    seconds = "" if submission.seconds is None else f"{submission.seconds:.0f} s"
    memory = human_bytes(submission.peak_bytes) if submission.peak_bytes else ""
    points = f"{submission.points:g} of {submission.max_points:g} points"
    return ", ".join(filter(None, [points, submission.late, seconds, memory]))
