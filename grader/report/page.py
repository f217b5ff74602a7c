"""A report as one HTML page that needs nothing else, runs no script, and prints well."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable

from grader.report.records import Submission
from grader.report.tally import KINDS, Summary, Tally
from grader.report.terminal import plain
from utils.figures.style import Picture, figure_html, human_bytes

SYMPTOMS_SHOWN = 5

STYLE = """
:root { color-scheme: light dark; --ink: #222; --faint: #666; --line: #ddd; --paper: #fff; --tint: #f5f7f9;
        --none: #E69F00; --part: #56B4E9; --full: #0072B2; --link: #005b8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e4e4; --faint: #a0a0a0; --line: #444; --paper: #161616;
        --tint: #202326; --link: #7cc0ee; } .figure img { border-radius: 6px; filter: brightness(0.9); } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
       margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1rem 0 .2rem; } p { margin: .3rem 0; } a { color: var(--link); }
nav a { margin-right: 1rem; } .faint { color: var(--faint); }
table { border-collapse: collapse; width: 100%; } 
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td, th { overflow-wrap: normal; } .name { white-space: nowrap; } .wide { overflow-x: auto; }
td.words { overflow-wrap: anywhere; min-width: 12rem; }
.bar { display: flex; height: .95rem; min-width: 8rem; margin-top: .25rem; background: var(--line); }
.bar i { border-right: 1px solid var(--paper); }
.none { background: var(--none); } .part { background: var(--part); } .full { background: var(--full); }
.bar .lost { background: var(--none); }
ul { margin: .2rem 0; padding-left: 1.2rem; } li { margin: .15rem 0; }
article { border-top: 1px solid var(--line); padding: .5rem 0; } article:target { background: var(--tint); }
article h3 { margin: 0; } article h3 span { font-weight: normal; }
th i { display: inline-block; width: .7em; height: .7em; margin-right: .3em; }
@media print { .wide { overflow: visible; } body { max-width: none; margin: 0; font-size: 10pt; } nav { display: none; }
               article, tr, .figure { break-inside: avoid; } .bar, th i { print-color-adjust: exact; } }
"""


def page(summary: Summary, picture: Picture) -> str:
    """The whole page. Every text in it is escaped; the browser is told to run nothing."""
    places = {one.student: f"s{number}" for number, one in enumerate(summary.submissions)}
    parts = [
        f"<h1>{text(summary.unit)}</h1>", _facts(summary),
        '<nav><a href="#exercises">Exercises</a><a href="#trouble">Commonest symptoms</a><a href="#look">Needs a look</a>'
        '<a href="#submissions">Submissions</a></nav>',
        f'<div class="figure">{figure_html(picture)}</div>',
        '<h2 id="exercises">Exercises</h2>', _exercises(summary.tallies),
        '<h2 id="trouble">Commonest symptoms</h2>', _symptoms(summary.tallies),
        '<h2 id="look">Needs a look</h2>', _looks(summary, places),
        '<h2 id="submissions">Submissions</h2>',
        *(_submission(one, places[one.student]) for one in summary.submissions),
    ]
    return "\n".join([
        '<!DOCTYPE html>', '<html lang="en">', '<meta charset="utf-8">',
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width">',
        f"<title>{text(summary.unit)}: report</title>", f"<style>{STYLE}</style>", *parts, "</html>", ""])


def text(value: object) -> str:
    """Escaped for the page, without characters that would turn the rest of it around."""
    return html.escape(plain(str(value)))


def _facts(summary: Summary) -> str:
    facts = [f"{len(summary.submissions)} submissions, {len(summary.marked)} marked"]
    if times := summary.times():
        facts.append(f"seconds to mark one: median {times[0]:.0f}, longest {times[1]:.0f} ({times[2]})")
    totals = [one.points for one in summary.marked]
    if totals:
        most = max(one.max_points for one in summary.marked)
        facts.append(f"mean {sum(totals) / len(totals):.1f} of {most:g} points")
    return f'<p class="faint">{text("; ".join(facts))}. Points are the judge\'s; marks.csv has those of the gradebook.</p>'


def _exercises(tallies: Iterable[Tally]) -> str:
    numbers = "".join(f'<th class="number">{words}</th>' for words in ("Students", "Mean", "Of"))
    counts = "".join(f'<th class="number"><i class="{name}"></i>{words}</th>' for name, words in (
        ("none", "None"), ("part", "Part"), ("full", "All")))
    return (f'<div class="wide"><table><tr><th>Exercise</th>{numbers}<th>Points</th>{counts}</tr>'
            f"{''.join(map(_exercise, tallies))}</table></div>")


def _exercise(one: Tally) -> str:
    mean = "–" if one.mean is None else f"{one.mean:.2f}"
    counts = (("none", one.none), ("part", one.part), ("full", one.full))
    bar = "".join(f'<i class="{name}" style="flex:{count}"></i>' for name, count in counts if count)
    cells = "".join(f'<td class="number">{text(value)}</td>' for value in (len(one.points), mean, f"{one.max_points:g}"))
    return (f'<tr><td class="name">{text(one.exercise)}</td>{cells}<td><div class="bar">{bar}</div></td>'
            + "".join(f'<td class="number">{count}</td>' for _, count in counts) + "</tr>")


def _symptoms(tallies: Iterable[Tally]) -> str:
    rows = []
    for one in tallies:
        shown = one.symptoms[:SYMPTOMS_SHOWN]
        for number, symptom in enumerate(shown):
            share = 100 * len(symptom.students) / len(one.points)
            name = f'<td rowspan="{len(shown)}" class="name">{text(one.exercise)}</td>' if number == 0 else ""
            rows.append(f'<tr>{name}<td class="number">{len(symptom.students)} of {len(one.points)}</td>'
                        f'<td><div class="bar"><i class="lost" style="width:{share:.1f}%"></i></div></td>'
                        f'<td class="words"><b>{text(symptom.name)}</b> {text(symptom.meaning)}</td></tr>')
    return f'<div class="wide"><table>{"".join(rows)}</table></div>' if rows else "<p>Nobody lost a point.</p>"


def _looks(summary: Summary, places: dict[str, str]) -> str:
    parts = []
    for kind in KINDS:
        found = [look for look in summary.looks if look.kind == kind]
        lines = "".join(f'<li><a href="#{places[look.student]}"><bdi>{text(look.student)}</bdi></a> {text(look.words)}</li>'
                        for look in found)
        if found:
            parts.append(f"<h3>{text(kind)}</h3><ul>{lines}</ul>")
    return "".join(parts) or "<p>Nothing.</p>"


def _submission(one: Submission, place: str) -> str:
    lines = [f"<b>{text(', '.join(names))}</b> {text(reason)}" for reason, names in _reasons(one).items()]
    lines += [f"Remark: {text(remark)}" for remark in one.remarks] + [f"Alarm: {text(alarm.text)}" for alarm in one.alarms]
    return (f'<article id="{place}"><h3><bdi>{text(one.student)}</bdi> <span class="faint">{text(_result(one))}</span></h3>'
            f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul></article>")


def _result(one: Submission) -> str:
    """"12 of 16 points, 40 s, 812 MiB", or why there are none."""
    if one.not_marked:
        return one.not_marked
    seconds = "" if one.seconds is None else f"{one.seconds:.0f} s"
    memory = human_bytes(one.peak_bytes) if one.peak_bytes else ""
    return ", ".join(filter(None, [f"{one.points:g} of {one.max_points:g} points", seconds, memory]))


def _reasons(one: Submission) -> dict[str, list[str]]:
    """reason -> "exercise (points of points)" of all that lost points for it."""
    found: dict[str, list[str]] = defaultdict(list)
    for outcome in one.outcomes.values():
        if not outcome.full:
            found[outcome.reason].append(f"{outcome.exercise} ({outcome.points:g} of {outcome.max_points:g})")
    return found
