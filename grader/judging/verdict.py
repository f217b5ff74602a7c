"""What the judge says: right or wrong per case and rank, demands, hints, points; as text and as HTML, one screen."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grader.evidence.evidence import RETURNED
from grader.judging.credit import Part
from grader.judging.html import fill_in
from utils.languages.choice import translated
from utils.words import padded, width_of

ERROR_LINES_SHOWN = 14
DIFFERENCES_SHOWN = 2
OTHER_ERRORS_SHOWN = 2


@dataclass(frozen=True)
class DemandVerdict:
    """Whether one demand of the technique was met in one case."""

    id: str
    label: str
    met: bool
    detail: str
    gate: bool

    @property
    def full_label(self) -> str:
        """The label, and for a gate what it means."""
        return f"{self.label} (required for any points)" if self.gate else self.label


@dataclass(frozen=True)
class CaseVerdict:
    """One case: problems maps a wrong rank to its first difference.

    error_kind, sources, fix: of a case that did not return, the exception's class, the lines of code in which it ended, and
    what would help. edge: what is odd about its inputs, if they are no ordinary ones, see grader.judging.credit.
    """

    name: str
    world_size: int
    ranks: tuple[int, ...]
    problems: dict[int, str]
    ending: str
    error: str
    demands: tuple[DemandVerdict, ...]
    error_kind: str = ""
    sources: tuple[str, ...] = ()
    fix: str = ""
    edge: str = ""

    @property
    def right(self) -> bool:
        return self.ending == RETURNED and not self.problems

    @property
    def counts(self) -> bool:
        """Whether the technique is judged by it: not by a case of an edge that is lost anyway."""
        return self.right or not self.edge

    def ranks_in_signs(self) -> str:
        """"0✓ 1✓ 2✗ 3✓", shortened to counts where there are many ranks."""
        if self.ending != RETURNED:
            return translated(self.ending)
        wrong = len(self.problems)
        if len(self.ranks) > 6:
            return translated("all ✓" if not wrong else f"{wrong} of {len(self.ranks)} ✗")
        return " ".join(f"{rank}{'✗' if rank in self.problems else '✓'}" for rank in self.ranks)

    @property
    def problems_shown(self) -> list[str]:
        """The first differences of a case that ended, rank by rank."""
        if self.ending != RETURNED:
            return []
        return [translated(f"rank {rank}: {text}") for rank, text in self.problems.items()]


@dataclass(frozen=True)
class Verdict:
    """The answer to one function. `hints`: (id, text); `earned` and `possible`: points per part."""

    exercise: str
    title: str
    cases: tuple[CaseVerdict, ...]
    hints: tuple[tuple[str, str], ...]
    earned: dict[str, float]
    possible: dict[str, float]
    parts: tuple[Part, ...] = ()  # what the values' points are divided into
    skipped: int = 0
    problem: str = ""  # why there is no evidence at all
    instead: tuple[CaseVerdict, ...] = ()  # what the student is shown in the place of the cases, if they would tell too much
    explained: tuple[str, ...] = ()  # the failed cases that the hint is about

    @property
    def shown(self) -> tuple[CaseVerdict, ...]:
        return self.instead or self.cases

    @property
    def points(self) -> float:
        return sum(self.earned.values())

    @property
    def max_points(self) -> float:
        return sum(self.possible.values())

    @property
    def passed(self) -> bool:
        """Full points."""
        return self.points == self.max_points and self.max_points > 0

    @property
    def hint_ids(self) -> tuple[str, ...]:
        return tuple(id for id, _ in self.hints)

    @classmethod
    def without_evidence(cls, exercise, problem: str) -> "Verdict":
        """Nothing was seen, so nothing is earned; `problem` says why."""
        return cls(exercise.id, exercise.title, (), (), dict.fromkeys(exercise.points, 0.0), dict(exercise.points),
                   problem=problem)

    def record(self) -> dict[str, Any]:
        """Plain JSON data."""
        cases = [asdict(case) | {"right": case.right} for case in self.cases]
        return asdict(self) | {"cases": cases, "points": self.points, "max_points": self.max_points}

    def technique(self) -> list[tuple[bool, str]]:
        """Each demand once: whether it was met, and what it says, with the first case that did not meet it."""
        lines = []
        for label, unmet in self.demands():
            first = [f"{translated(demand.detail)} ({translated(case.name)})" for case, demand in unmet[:1]]
            lines.append((not unmet, translated(": ").join([translated(label), *first])))
        return lines

    def demands(self) -> list[tuple[str, list[tuple[CaseVerdict, DemandVerdict]]]]:
        """Each demand once: what it says, and which of the cases that count did not meet it, each with its own verdict.

        Nothing where an ordinary case did not return.
        """
        if self.instead or any(case.ending != RETURNED for case in self.cases if not case.edge):
            return []
        judged = [(case, demand) for case in self.cases if case.counts for demand in case.demands]
        labels = {demand.id: demand.full_label for _, demand in judged}
        return [(label, [(case, demand) for case, demand in judged if demand.id == id and not demand.met])
                for id, label in labels.items()]

    # ── text ──

    def __str__(self) -> str:
        lines = [self.headline(), *(f"  {line}" for line in (*translated(self.problem).splitlines(), *self.credit()))]
        names = [translated(case.name) for case in self.shown]
        width = max(map(width_of, names), default=0)
        for case, name in zip(self.shown, names, strict=True):
            lines.append(f"  {sign(case.right)} {padded(name, width)}  {case.ranks_in_signs()}".rstrip())
        lines += [f"  {line}" for line in self._explanation()]
        if technique := self.technique():
            lines += [f"  {translated('Technique:')}", *(f"    {sign(met)} {text}" for met, text in technique)]
        lines += [f"  {translated(f'Hint: {text}')}" for _, text in self.hints]
        return "\n".join(lines)

    __repr__ = __str__

    def headline(self) -> str:
        """"Ring all-reduce: 2 of 4 points (values 2/2, technique 0/2)"."""
        parts = translated(", ").join(f"{translated(part)} {_points(self.earned[part])}/{_points(most)}"
                                      for part, most in self.possible.items())
        return translated(f"{self.title}: {_points(self.points)} of {_points(self.max_points)} points ({parts})")

    def credit(self) -> list[str]:
        """What works and what is missing, where not all does and something does."""
        right = [part for part in self.parts if part.complete]
        wrong = [part for part in self.parts if not part.complete]
        if not self.cases or not wrong or not any(case.right for case in self.cases):
            return []
        works = [translated(f"Works: {', '.join(map(str, right))}.")] if right else []
        core = self.parts[0]
        if not core.complete and len(self.parts) == 1:
            return [*works, translated(f"Missing: {core}.")]
        if not core.complete:
            missing = f"Missing: {core}, which come first: before they are right nothing earns points."
            return [*works, translated(missing)]
        points = _points(sum(part.points for part in wrong))
        return [*works, translated(f"Missing: {', '.join(map(str, wrong))}: {points} points.")]

    def _explanation(self) -> list[str]:
        """A failed case in detail: one that the hint explains, and of these one that can show numbers; and other errors."""
        failed = sorted((case for case in self.shown if not case.right),
                        key=lambda case: (case.name not in self.explained, not case.problems_shown))
        if not failed:
            return []
        first = failed[0]
        lines = first.problems_shown[:DIFFERENCES_SHOWN] or translated(first.error).splitlines()[:ERROR_LINES_SHOWN]
        if self.skipped and not self.instead:
            lines = [*lines, translated(f"({self.skipped} more cases were not run)")]
        told = [translated(f"In the case “{first.name}”:"), *(f"  {line}" for line in lines)] if lines else []
        return told + self._other_errors(first, failed[1:])

    def _other_errors(self, first: CaseVerdict, others: Sequence[CaseVerdict]) -> list[str]:
        """One line for each kind of exception that was raised in other cases, and not in the one that is shown."""
        by_kind: dict[str, list[CaseVerdict]] = {}
        for case in others:
            if case.error and case.error_kind != first.error_kind:
                by_kind.setdefault(case.error_kind, []).append(case)
        return [translated(f"In {len(cases)} other case{'s' * (len(cases) > 1)}, such as “{cases[0].name}”: "
                           f"{cases[0].error.splitlines()[0]}") for cases in by_kind.values()][:OTHER_ERRORS_SHOWN]

    # ── HTML ──

    def _repr_html_(self) -> str:
        reasons = [*filter(None, [translated(self.problem)]), *self.credit()]
        return self.to_html(reasons, self.shown, self.technique(), self._explanation())

    def to_html(self, reasons: Sequence[str], cases: Sequence[CaseVerdict], technique: Sequence[tuple[bool, str]],
                details: Sequence[str] = (), further: Sequence[str] = ()) -> str:
        """Headline, reasons, a table of the cases, demands, details, hints, further lines (verdict.html).

        Reasons, demands, details and further lines come in the language of the course.
        """
        return fill_in(__file__, verdict=self, reasons=reasons, cases=cases, technique=technique,
                       details="\n".join(details), further=further)


def sign(good: bool) -> str:
    """A tick or a cross."""
    return "✓" if good else "✗"


def _points(value: float) -> str:
    return f"{round(value, 2):g}"
