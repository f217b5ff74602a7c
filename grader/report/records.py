"""The judge's records as marking left them in the course folder, read as plain data, whatever they lack."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from grader.course.alarms import ALARMS, OTHER, Alarm
from grader.course.cell import is_solution, name_of
from grader.evidence.endings import DEADLOCKED, RAISED, RETURNED, TIMED_OUT
from grader.evidence.traffic import NETWORK_DEMAND
from grader.report.likeness import Sources

LONGEST_TEXT, LARGEST_NUMBER = 600, 1e18
NOT_WRITTEN, NOTHING_TO_JUDGE = "not written yet", "nothing to judge"
ENDINGS = {RAISED: "raised an error", DEADLOCKED: "deadlock", TIMED_OUT: "out of time"}
OWN_CELLS = "own cells"
GIVEN_BY_HAND = "the points were given by hand"
UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Outcome:
    """What one student earned for one exercise, and if that is not all: why.

    symptom: a few words, the same for all with the same trouble; lesson: what it means, if that is known; seen: what the
    judge saw here.
    contradicted: what the network said against the calls. by_hand: the points that count in place of these, if a person gave
    other ones.
    """

    exercise: str
    title: str
    points: float
    max_points: float
    symptom: str = ""
    lesson: str = ""
    seen: str = ""
    contradicted: str = ""
    by_hand: float | None = None

    @property
    def with_points(self) -> str:
        """"reduce (2 of 4)", "reduce (0 of 4; 1 by hand)"."""
        if self.by_hand is None:
            return f"{self.exercise} ({self.points:g} of {self.max_points:g})"
        return f"{self.exercise} ({self.points:g} of {self.max_points:g}; {self.by_hand:g} by hand)"

    @property
    def full(self) -> bool:
        return self.points >= self.max_points

    @property
    def reason(self) -> str:
        """Why points were lost, in words; empty where none were."""
        if self.full:
            return ""
        seen = f"Seen: {self.seen}" if self.seen and self.lesson else self.seen
        return f"{self.symptom}: {self.lesson} {seen}".replace(":  ", ": ").rstrip(": ")


@dataclass(frozen=True)
class Submission:
    """One student's record. not_marked: why there is none, else empty. late: what being late costs, in words. called: how
    people are told of her, where that is more than `student`."""

    student: str
    not_marked: str = ""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    seconds: float | None = None
    peak_bytes: float | None = None
    remarks: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    late: str = ""
    called: str = ""

    def __str__(self) -> str:
        return self.called or self.student

    @property
    def without_work(self) -> Outcome | None:
        """Where every exercise lacks its points for one reason, nothing written or nothing readable: the first of them."""
        reasons = {(outcome.symptom, outcome.lesson) for outcome in self.outcomes.values()}
        first = next(iter(self.outcomes.values()), None)
        return first if first and first.symptom in (NOT_WRITTEN, NOTHING_TO_JUDGE) and len(reasons) == 1 else None

    @property
    def reasons(self) -> dict[str, list[str]]:
        """reason -> "exercise (points of points)" of all that lost points for it, or got other ones by hand."""
        reasons: dict[str, list[str]] = {}
        for one in self.outcomes.values():
            if not one.full or one.by_hand is not None:
                reasons.setdefault(one.reason or GIVEN_BY_HAND, []).append(one.with_points)
        return reasons

    @property
    def only_remarks(self) -> list[str]:
        """Those that are no alarm besides."""
        alarms = {alarm.text for alarm in self.alarms}
        return [remark for remark in self.remarks if remark not in alarms]

    @property
    def points(self) -> float:
        return sum(outcome.points for outcome in self.outcomes.values())

    @property
    def max_points(self) -> float:
        return sum(outcome.max_points for outcome in self.outcomes.values())


def read_submission(student: str, folder: Path | None, unit: str, not_readable: str = "") -> Submission:
    """What marking left in `folder`. Never raises: what cannot be read is not marked, and says why.

    not_readable: why marking could not read what was handed in, if it could not.
    """
    if folder is None or not (folder / f"{unit}.marks.json").is_file():
        return Submission(student, one_line(not_readable) or "handed in, but not marked")
    try:
        facts = json.loads((folder / f"{unit}.marks.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return Submission(student, f"the record {unit}.marks.json cannot be read: {one_line(str(error))}")
    if not isinstance(facts, dict) or not isinstance(facts.get("exercises"), dict):
        return Submission(student, f"the record {unit}.marks.json is not a record: it has no exercises")
    return read_record(student, facts)


def read_record(student: str, facts: dict) -> Submission:
    """A submission's record, which has exercises."""
    outcomes = {name: read_outcome(name, verdict) for name, verdict in facts["exercises"].items()}
    alarms = facts.get("alarms")
    return Submission(student, "", outcomes, _number(facts.get("seconds")), _number(facts.get("peak_bytes")),
                      _texts(facts.get("remarks")), tuple(map(_alarm, alarms if isinstance(alarms, list) else ())))


def read_outcome(name: str, facts: Any) -> Outcome:
    """One verdict's record."""
    facts = facts if isinstance(facts, dict) else {}
    points = _number(facts.get("points"), _total(facts.get("earned")))
    most = _number(facts.get("max_points"), _total(facts.get("possible")))
    contradictions = [one_line(_text(demand.get("detail"))) or "no numbers recorded"
                      for demand, _ in _unmet_demands(facts) if demand.get("id") == NETWORK_DEMAND]
    title = one_line(_text(facts.get("title"))) or name
    return Outcome(name, title, points, most, *_why(facts), next(iter(contradictions), ""))


def read_sources(notebook: Path, released: Mapping[str, str]) -> Sources:
    """The solution cells that differ from the released ones, and the student's own cells as one more; no released text.

    released: name -> source of the students' version.  Raises: UNREADABLE.
    """
    texts = {source.strip() for source in released.values()}
    cells = [cell for cell in code_cells(notebook) if cell.source.strip() not in texts]
    written = {name_of(cell): cell.source for cell in cells if is_solution(cell)}
    own = "\n".join(cell.source for cell in cells if name_of(cell) not in released and not is_solution(cell)
                    and cell.source not in written.values())
    return written | ({OWN_CELLS: own} if own.strip() else {})


def code_cells(notebook: Path) -> list[NotebookNode]:
    """A notebook's code cells, their sources whole; unchecked, which is fast.  Raises: UNREADABLE."""
    cells = nbformat.from_dict(json.loads(notebook.read_bytes())).cells
    for cell in cells:
        cell.source = "".join(cell.get("source", ""))
    return [cell for cell in cells if cell.cell_type == "code"]


def one_line(text: str) -> str:
    """Text on one line, of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else line[:LONGEST_TEXT - 1] + "…"


# ── why points were lost ──


def _why(facts: dict) -> tuple[str, str, str]:
    """(symptom, lesson, seen), never all empty."""
    problem = one_line(_text(facts.get("problem")))
    if NOT_WRITTEN in problem:
        return NOT_WRITTEN, "The skeleton's raise NotImplementedError is still there.", ""
    if problem:
        return NOTHING_TO_JUDGE, problem.removeprefix("Nothing to judge: "), ""
    symptom, seen = _first_failure(facts)
    match facts.get("hints"):
        case [[id, hint], *_]:
            shown = next((words for unmet, words in _unmet(facts) if unmet == id), seen)
            return one_line(_text(id)) or symptom, one_line(_text(hint)), shown
    return symptom, "" if seen else "The record gives no reason: look at the marked notebook.", seen


def _first_failure(facts: dict) -> tuple[str, str]:
    """(what kind of failure, what was seen) of the case that tells most: wrong numbers, an odd ending, an unmet demand."""
    cases = _dicts(facts.get("cases"))
    for case in cases:
        problems = case.get("problems")
        if case.get("ending") == RETURNED and isinstance(problems, dict) and problems:
            rank, difference = next(iter(problems.items()))
            return "wrong values", _in_case(f"rank {rank}: {_text(difference)}", case)
    for case in cases:
        if case.get("ending") not in (RETURNED, None):
            error = _text(case.get("error")).strip().split("\n")[0]
            return _ending(_text(case["ending"]), error), _in_case(error or _text(case["ending"]), case)
    return next(_unmet(facts), ("no reason recorded", ""))


def _unmet(facts: dict) -> Iterator[tuple[str, str]]:
    """(id, what was wanted and seen) of each demand on the technique that a case did not meet."""
    for demand, case in _unmet_demands(facts):
        words = ": ".join(filter(None, [_text(demand.get("label")), _text(demand.get("detail"))]))
        yield one_line(_text(demand.get("id"))) or "technique", _in_case(words, case)


def _unmet_demands(facts: dict) -> list[tuple[dict, dict]]:
    """(the demand, its case)"""
    return [(demand, case) for case in _dicts(facts.get("cases")) for demand in _dicts(case.get("demands"))
            if not demand.get("met")]


def _ending(ending: str, error: str) -> str:
    kind = re.match(r"rank \d+: ([A-Za-z_][\w.]*)(?::|$)", error)
    return f"raised {kind[1]}" if ending == RAISED and kind else ENDINGS.get(ending, one_line(ending) or "did not end well")


def _in_case(words: str, case: dict) -> str:
    name = _text(case.get("name"))
    return one_line(f"{words} (case “{name}”)" if name else words)


# ── what may be missing or of another type ──


def _number(value: Any, otherwise: float | None = None) -> float | None:
    good = type(value) in (int, float) and abs(value) < LARGEST_NUMBER  # written so that NaN is none
    return float(value) if good else otherwise


def _total(parts: Any) -> float:
    return sum(_number(part) or 0.0 for part in parts.values()) if isinstance(parts, dict) else 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    return tuple(one_line(item if isinstance(item, str) else json.dumps(item)) for item in items)


def _alarm(value: Any) -> Alarm:
    """Records of earlier versions have plain text here."""
    if not isinstance(value, dict):
        return Alarm(OTHER, *_texts([value]))
    kind = value.get("kind")
    text = one_line(_text(value.get("text"))) or one_line(json.dumps(value))
    return Alarm(kind if kind in ALARMS else OTHER, text, _text(value.get("about")))


def _dicts(value: Any) -> list[dict]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
