"""Counting: from submissions to what a class earned, its commonest symptoms, its times, and what needs a look."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from grader.course.alarms import ALARMS, CONTRADICTED, MALFORMED, OTHER
from grader.course.requests import Request
from grader.report.likeness import Pair
from grader.report.records import Outcome, Submission

ALIKE, NOT_COMPARED, NOT_MARKED = "near-identical solutions", "not compared with others", "not marked"
KINDS = (*ALARMS, ALIKE, NOT_COMPARED, NOT_MARKED)
NAMED = 3
_INTERRUPTED = "and was interrupted"  # how a remark ends on a cell that ran for too long
_REFUSED = "evidence was not accepted"


@dataclass(frozen=True)
class Symptom:
    """One way in which points were lost, who lost them so, and what the judge saw of the first of them."""

    name: str
    lesson: str
    students: tuple[str, ...]
    example: str = ""

    @property
    def meaning(self) -> str:
        """The lesson; where there is none, an example."""
        return self.lesson or (f"for example {self.example}" if self.example else "")

    @property
    def words(self) -> str:
        return f"{self.name} — {self.meaning}" if self.meaning else self.name


@dataclass(frozen=True)
class Tally:
    """One exercise over the class. points: one number a marked student; symptoms: the commonest first; path: see
    grader.contracts."""

    exercise: str
    title: str
    max_points: float
    points: tuple[float, ...]
    symptoms: tuple[Symptom, ...]
    path: str = ""

    @property
    def none(self) -> int:
        return sum(p <= 0 < self.max_points for p in self.points)

    @property
    def full(self) -> int:
        return sum(p >= self.max_points > 0 for p in self.points)

    @property
    def withdrawn(self) -> bool:
        """Whether it has no points to be had, and so nobody has none, part or all of them."""
        return not self.max_points

    @property
    def part(self) -> int:
        return 0 if self.withdrawn else len(self.points) - self.none - self.full

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.points) if self.points else None

    def histogram(self) -> list[int]:
        """Students with nothing, up to a third, up to two thirds, less than all, and all of the points."""
        bins = [0] * 5
        for p in self.points:
            share = p / self.max_points if self.max_points else 1.0
            bins[4 if share >= 1 else 0 if share <= 0 else min(3, 1 + int(3 * share - 1e-9))] += 1
        return bins


@dataclass(frozen=True)
class Look:
    """A reason for a person to look at a student's work."""

    student: str
    kind: str
    words: str


@dataclass(frozen=True)
class Summary:
    """All that a report says. requests: of these students; bad_requests: in words, files of requests that hold none."""

    unit: str
    submissions: tuple[Submission, ...]
    tallies: tuple[Tally, ...]
    looks: tuple[Look, ...]
    whole_class: bool = True
    requests: tuple[Request, ...] = ()
    bad_requests: tuple[str, ...] = ()

    @property
    def same_looks(self) -> list[tuple[str, str, list[str]]]:
        """(kind, words, whose), each kind and words once."""
        whose: dict[tuple[str, str], list[str]] = defaultdict(list)
        for look in self.looks:
            whose[look.kind, look.words].append(look.student)
        return [(kind, words, students) for (kind, words), students in whose.items()]

    @property
    def open_requests(self) -> list[Request]:
        return [request for request in self.requests if not request.answer]

    def points_of(self, request: Request) -> str:
        """What was given where a student asks: "2 of 4 points", "0 of 4 points, 1 by hand"."""
        submission = next(one for one in self.submissions if one.student == request.student)
        outcome = submission.outcomes.get(request.exercise)
        if outcome is None:
            return "not marked"
        by_hand = "" if outcome.by_hand is None else f", {outcome.by_hand:g} by hand"
        return f"{outcome.points:g} of {outcome.max_points:g} points{by_hand}"

    def called(self, student: str) -> str:
        """How people are told of one of these students."""
        return self._called.get(student, student)

    @cached_property
    def _called(self) -> dict[str, str]:
        return {one.student: str(one) for one in self.submissions}

    def symptoms(self, most: int) -> list[tuple[str, int, tuple[Symptom, ...]]]:
        """(exercise, of how many students, its commonest symptoms), where there are any.

        First of all whoever lacks all points for one reason: these are not counted again with each exercise.
        """
        empty = _symptoms({one.student: one.without_work for one in self.marked if one.without_work}, "symptom", "lesson")
        rows = [("all exercises", len(self.marked), empty),
                *((t.exercise, len(t.points), t.symptoms[:most]) for t in self.tallies)]
        return [row for row in rows if row[2]]

    @property
    def marked(self) -> list[Submission]:
        return [submission for submission in self.submissions if not submission.not_marked]

    def times(self) -> str | None:
        """Seconds to mark one submission: "median 20, longest 95 (bo)"; None where no record has them."""
        timed = [(marked.seconds, str(marked)) for marked in self.marked if marked.seconds is not None]
        if not timed:
            return None
        longest, student = max(timed)
        return f"median {statistics.median(seconds for seconds, _ in timed):.0f}, longest {longest:.0f} ({student})"


def summarise(unit: str, submissions: Sequence[Submission], pairs: Sequence[Pair] = (),
              not_compared: Mapping[str, str] = MappingProxyType({}), students: Collection[str] | None = None,
              paths: Mapping[str, str] = MappingProxyType({})) -> Summary:
    """Count. pairs: near-identical ones of the class; not_compared: student -> why; students: only these (None: all);
    paths: exercise -> the path that it is on."""
    whole = complete(submissions)
    chosen = tuple(submission for submission in whole if students is None or submission.student in students)
    looks: list[Look] = []
    called = {submission.student: str(submission) for submission in whole}
    by_exercise: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for submission in chosen:
        student = submission.student
        looks += [*_own_looks(submission), *_likenesses(student, pairs, called)]
        if student in not_compared:
            looks.append(Look(student, NOT_COMPARED, not_compared[student]))
        for name, outcome in submission.outcomes.items():
            by_exercise[name][student] = outcome
    looks.sort(key=lambda look: (KINDS.index(look.kind), look.student))
    without_work = {submission.student for submission in chosen if submission.without_work}
    tallies = tuple(replace(tally(outcomes, without_work), path=paths.get(name, ""))
                    for name, outcomes in by_exercise.items())
    return Summary(unit, chosen, tallies, tuple(looks), len(chosen) == len(whole))


def complete(submissions: Sequence[Submission]) -> list[Submission]:
    """The same, where every record speaks of every exercise, in one order, with the same points to be had."""
    known: dict[str, Outcome] = {}
    for submission in sorted(submissions, key=lambda submission: -len(submission.outcomes)):
        for name, outcome in submission.outcomes.items():
            if name not in known or outcome.max_points > known[name].max_points:
                known[name] = outcome
    # A damaged verdict says nothing of the points to be had, so they come from the others.
    blank = {name: Outcome(name, outcome.title, 0.0, outcome.max_points, "no verdict",
                           "The record has no verdict on this exercise.") for name, outcome in known.items()}
    return [submission if submission.not_marked else replace(submission, outcomes={
        name: replace(submission.outcomes.get(name, empty), max_points=empty.max_points)
        for name, empty in blank.items()}) for submission in submissions]


def tally(outcomes: Mapping[str, Outcome], without_work: Collection[str] = ()) -> Tally:
    """One exercise's outcomes, by student (one at least). without_work: students whose symptoms are told elsewhere."""
    first = next(iter(outcomes.values()))
    lost = {student: outcome for student, outcome in outcomes.items() if not outcome.full and student not in without_work}
    return Tally(first.exercise, first.title, first.max_points, tuple(o.points for o in outcomes.values()),
                 _symptoms(lost, "symptom"))


def _symptoms(lost: Mapping[str, Outcome], *same: str) -> tuple[Symptom, ...]:
    """The commonest first, of outcomes by student. same: the fields in which all of one symptom agree."""
    groups: dict[Any, dict[str, Outcome]] = defaultdict(dict)
    for student, outcome in lost.items():
        groups[attrgetter(*same)(outcome)][student] = outcome
    symptoms = []
    for losers in groups.values():
        first, lessons = next(iter(losers.values())), Counter(outcome.lesson for outcome in losers.values())
        symptoms.append(Symptom(first.symptom, lessons.most_common(1)[0][0], tuple(losers), first.seen))
    return tuple(sorted(symptoms, key=lambda s: (-len(s.students), s.name)))


def _own_looks(submission: Submission) -> list[Look]:
    """What a submission's own record asks a person to look at."""
    if submission.not_marked:
        return [Look(submission.student, NOT_MARKED, submission.not_marked)]
    looks = [Look(submission.student, alarm.kind, alarm.text) for alarm in dict.fromkeys(submission.alarms)]
    looks += [Look(submission.student, OTHER, remark) for remark in submission.only_remarks if remark.endswith(_INTERRUPTED)]
    for outcome in submission.outcomes.values():
        told = {alarm.kind for alarm in submission.alarms if alarm.about == outcome.exercise}
        if outcome.contradicted and CONTRADICTED not in told:
            text = f"{outcome.exercise}: the network contradicts the calls: {outcome.contradicted}"
            looks.append(Look(submission.student, CONTRADICTED, text))
        if _REFUSED in outcome.lesson and MALFORMED not in told:
            looks.append(Look(submission.student, MALFORMED, f"{outcome.exercise}: {outcome.lesson}"))
    return looks


def _likenesses(student: str, pairs: Sequence[Pair], called: Mapping[str, str]) -> list[Look]:
    """One line that names all whose text is like this student's."""
    own = [pair for pair in pairs if student in pair.students]
    if not own:
        return []
    others = [called.get(name, name) for pair in own for name in pair.students if name != student]
    where = f", in {listed(own[0].exercises)}" if own[0].exercises else ""
    return [Look(student, ALIKE, f"like {listed(others)}: {own[0].share:.0%} of what few others wrote is the same, "
                                 f"variables' names aside{where}")]


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
