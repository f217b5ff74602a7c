"""A verdict as a student gets it back: points, reasons and hints, and nothing of the cases that marking drew.

No word comes from an exception: a function can put its inputs into a message, or into the name of a class.
"""

import builtins
from collections import Counter
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from grader.course.shown import sentence
from grader.course.splice import harmless
from grader.evidence.evidence import DEADLOCKED, RAISED, RETURNED, TIMED_OUT
from grader.judging.verdict import Verdict, sign
from utils.languages.choice import translated

LINES_SHOWN = 3
_ENDED = {RAISED: "raised an error", DEADLOCKED: "stood still in a deadlock", TIMED_OUT: "was not done in time"}


def as_text(verdict: Verdict) -> str:
    """Plain text, as short as the table in the notebook."""
    lines = [verdict.headline(), *(f"  {line}" for line in _reasons(verdict))]
    lines += [f"    {sign(met)} {label}" for met, label in _technique(verdict)]
    hints = [f"  {translated(f'Hint: {text}')}" for _, text in verdict.hints]
    return "\n".join(lines + hints + [f"  {line}" for line in _further(verdict)])


def as_html(verdict: Verdict) -> str:
    """The same for a page."""
    return verdict.to_html(_reasons(verdict), (), _technique(verdict), further=_further(verdict))


def remarks_cell(remarks: Sequence[str]) -> NotebookNode:
    """What a student should know beside her points, for the top of the marked notebook: text, whatever is quoted in it."""
    lines = "".join(f"<li>{''.join(map(harmless, sentence(remark)))}</li>" for remark in remarks)
    return new_markdown_cell(f"**{translated('What marking noticed')}**\n\n<ul>{lines}</ul>")


def _reasons(verdict: Verdict) -> list[str]:
    if verdict.problem:
        return [translated(verdict.problem)]
    if not verdict.cases or verdict.instead:
        return []
    total = len(verdict.cases) + verdict.skipped
    right = sum(case.right for case in verdict.cases)
    lines = [f"Right in {'all ' if right == total else f'{right} of the '}{total} cases that marking drew."]
    endings = Counter(case.ending for case in verdict.cases)
    lines += [f"In {count} of them it {_ENDED[ending]}." for ending, count in endings.items() if ending != RETURNED]
    return [*map(translated, lines), *verdict.credit(), *map(translated, _where(verdict))]


def _where(verdict: Verdict) -> list[str]:
    """The student's own lines in which the first failed case ended, the kind of error, and a likely fix."""
    ended = next((case for case in verdict.cases if case.ending != RETURNED), None)
    if ended is None:
        return []
    lines = []
    if ended.ending == RAISED and isinstance(getattr(builtins, ended.error_kind, None), type):  # others may have any name
        lines.append(f"The first was {ended.error_kind}.")
    lines += [f"at: {source}" for source in ended.sources[:LINES_SHOWN]]
    may_be_told = ended.fix and ended.error_kind != "tags differ"  # whose words name the tags
    return lines + ([f"Likely fix: {ended.fix}"] if may_be_told else [])


def _technique(verdict: Verdict) -> list[tuple[bool, str]]:
    """Each demand once, without the figures of any case."""
    return [(not unmet, translated(label)) for label, unmet in verdict.demands()]


def _further(verdict: Verdict) -> list[str]:
    if verdict.passed or not verdict.cases or verdict.instead:
        return []
    return [translated(f"check.{verdict.exercise}({verdict.exercise}) in your notebook shows cases of this kind in detail.")]
