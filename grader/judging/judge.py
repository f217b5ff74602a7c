"""From an exercise, its trials and the evidence to a verdict. A pure function: it never runs student code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.evidence.evidence import NOT_WRITTEN, RETURNED, SKELETON_ERROR, Evidence
from grader.judging.compare import bounded, first_difference, same
from grader.judging.credit import earned_by, parts_of
from grader.judging.demands import NotSeen, network_agrees
from grader.judging.exercise import ROUNDED, TECHNIQUE, VALUES, Demand, Exercise, Look, Mistake, Slip, Symptom, Trial
from grader.judging.faults import counted
from grader.judging.general import IN_GROUPS_ONLY, LAST_RESORTS, UNKNOWN_NAME
from grader.judging.verdict import CaseVerdict, DemandVerdict, Verdict
from utils.trace.source import Line

DETAIL = 500  # characters of what was seen; names of calls in it are the ranks' own
FEW = 3  # what explains fewer than one failed case in FEW gives way to a general hint that explains more


def judge(exercise: Exercise, trials: Sequence[Trial], evidences: Sequence[Evidence]) -> Verdict:
    """The verdict on one function.

    Values earn points when all ordinary cases are right on every rank and every gating demand is met; each edge that is
    right as well earns its share. The technique earns its points only on top of that: doing nothing moves few bytes too.
    It is judged by the cases that count: not by one of an edge that was lost anyway.
    """
    if evidences and evidences[0].error_kind == SKELETON_ERROR:
        return Verdict.without_evidence(exercise, _not_written(exercise.id, evidences[0].lines))
    edges = exercise.edges_among(trials)
    looks = [Look(trial.case, trial.right, _bounded(evidence, trial.right), exercise.tolerance)
             for trial, evidence in zip(trials, evidences, strict=False)]
    rows = [_judge_case(exercise, look, edge) for look, edge in zip(looks, edges, strict=False)]
    if exercise.faults:
        return counted(exercise, trials, rows)
    values = exercise.points.get(VALUES, 0)
    parts = parts_of(edges, [row.right for row in rows], values)
    asked = [demand for row in rows if row.counts for demand in row.demands]
    core_right = bool(rows) and parts[0].complete
    earned = {
        VALUES: earned_by(parts, values) * all(demand.met for demand in asked if demand.gate),
        TECHNIQUE: exercise.points.get(TECHNIQUE, 0) * (core_right and all(demand.met for demand in asked)),
    }
    first = _first_to_fix(exercise, looks, rows)
    hints, shown = (((first.known.id, exercise.hints[first.known.id]),), first.cases) if first else ((), ())
    return Verdict(exercise.id, exercise.title, tuple(rows), hints, earned, dict(exercise.points), tuple(parts),
                   skipped=len(trials) - len(rows), explained=shown)


def _not_written(exercise: str, lines: Sequence[Line]) -> str:
    """The skeleton that was met; where the exercise itself is written, the line that leads to it."""
    if len(lines) > 1 and SKELETON_ERROR in lines[-1].code:
        return f"{exercise} uses what is not written yet:\n{lines[-2]}\n{lines[-1]}"
    return NOT_WRITTEN.format(exercise)


def _bounded(evidence: Evidence, right: Sequence[Any]) -> Evidence:
    """The same, without outputs that are too large to be looked at."""
    return replace(evidence, outputs=bounded(evidence.outputs[:len(right)], right))


def _judge_case(exercise: Exercise, look: Look, edge: str) -> CaseVerdict:
    problems = {}
    for rank, found, expected in look.pairs():
        difference = first_difference(exercise.read(look.case, found), expected, exercise.tolerance)
        if difference:
            problems[rank] = difference
    ended = look.evidence.ending == RETURNED
    demands = tuple(_judge_demand(demand, look) for demand in asked_of(exercise, look)) if ended else ()
    return CaseVerdict(look.case.name, look.case.world_size, tuple(look.working), problems, look.evidence.ending,
                       look.evidence.error, demands, look.evidence.error_kind,
                       tuple(dict.fromkeys(line.code for line in look.evidence.lines if line.code)), look.evidence.fix, edge)


def asked_of(exercise: Exercise, look: Look) -> tuple[Demand, ...]:
    """The exercise's demands and, where the network was counted, that it agrees with the calls they are judged by."""
    demands = exercise.technique.demands
    if look.evidence.loopback_bytes is None or not demands:
        return demands
    return (*demands, network_agrees(gate=any(demand.gate for demand in demands)))


def _judge_demand(demand, look: Look) -> DemandVerdict:
    try:
        met, detail = demand.judge(look)
    except NotSeen as missing:
        met, detail = False, str(missing)
    return DemandVerdict(demand.id, demand.label, bool(met), detail[:DETAIL], demand.gate)


@dataclass(frozen=True)
class _Explanation:
    """What may be wrong, and the names of the failed cases that it explains."""

    known: Symptom | Slip | Mistake | Demand
    cases: tuple[str, ...]


def _first_to_fix(exercise: Exercise, looks: list[Look], rows: list[CaseVerdict]) -> _Explanation | None:
    """An unmet gate, else what explains the failed cases, else another demand, or why it is unmet in groups alone."""
    unmet = {d.id for row in rows for d in row.demands if not d.met}
    failed = [look for look, row in zip(looks, rows, strict=True) if not row.right]
    failed = [look for look in failed if look.case.shows_slips] or failed
    demands = list(dict.fromkeys(demand for look in looks for demand in asked_of(exercise, look)))
    gates = [_Explanation(d, ()) for d in demands if d.gate and d.id in unmet and not (failed and d.for_right_values)]
    others = [_Explanation(d, ()) for d in demands if d.id in unmet] if not failed else []
    if others and _only_in_groups(looks, rows, others[0].known):
        others = [_Explanation(IN_GROUPS_ONLY, ())]
    passed = [look for look, row in zip(looks, rows, strict=True) if row.right]
    return next(iter(gates or _explanations(exercise, failed, passed) or others), None)


def _only_in_groups(looks: list[Look], rows: list[CaseVerdict], demand: Demand) -> bool:
    """What is to be done is done wherever the group is the world, and in some case with groups it is not.

    What a demand forbids may be seen in such a case by chance.
    """
    judged = [(IN_GROUPS_ONLY.matches(look), one.met) for look, row in zip(looks, rows, strict=True)
              for one in row.demands if one.id == demand.id]
    in_groups, elsewhere = ([met for grouped, met in judged if grouped is wanted] for wanted in (True, False))
    return not demand.forbids and not all(in_groups) and bool(elsewhere) and all(elsewhere)


def _explanations(exercise: Exercise, failed: list[Look], passed: list[Look]) -> list[_Explanation]:
    """What explains most of the failed cases; what any function can do comes last, unless it explains more than the rest."""
    technique = exercise.technique

    def matched(symptoms: Sequence[Symptom]) -> list[_Explanation]:
        found = []
        for symptom in symptoms:
            cases = tuple(look.case.name for look in failed if _tried(symptom.matches, look))
            refuted = any(_tried(symptom.refuted, look) for look in failed)
            if cases and not refuted and (len(cases) == len(failed) or not symptom.alone):
                found.append(_Explanation(symptom, cases))
        return found

    if misspelt := matched([UNKNOWN_NAME]):  # nothing else can be told of a function that never came further
        return misspelt
    symptoms = matched(technique.symptoms)
    slips = []
    if not any(len(symptom.cases) == len(failed) and not symptom.known.weak for symptom in symptoms):
        slips = _explained(exercise, failed, passed)  # else none explains more, and to ask what they make takes long
    known = [*symptoms, *slips, *matched([*technique.fallbacks, IN_GROUPS_ONLY])]
    sure = [one for one in known if not getattr(one.known, "weak", False)]
    explained = sure or [*matched(LAST_RESORTS), *known]
    if explained and FEW * max(len(one.cases) for one in explained) < len(failed):
        explained += matched(LAST_RESORTS)
    most = max((len(one.cases) for one in explained), default=0)
    return [one for one in explained if len(one.cases) == most]


def _explained(exercise: Exercise, failed: list[Look], passed: list[Look]) -> list[_Explanation]:
    """The slips that no case refutes in which they show, be it failed or passed, each with the cases that it explains."""
    tolerance = max(exercise.tolerance, ROUNDED)
    cases: dict[str, tuple[str, ...]] = dict.fromkeys(exercise.slips, ())

    def explains(look: Look, wrong: list[Any]) -> bool:
        return look.evidence.ending == RETURNED and all(
            same(exercise.read(look.case, found), wrong[rank], tolerance) for rank, found, _ in look.pairs())

    for look in sorted(failed, key=lambda look: (look.evidence.ending != RETURNED, abs(len(look.working) - 3))):
        slips = list(cases)
        for slip, wrong in zip(slips, exercise.wrong_results(look, slips), strict=True):
            if wrong is not None and not _tried(explains, look, wrong):
                del cases[slip]
            elif wrong is not None:
                cases[slip] += (look.case.name,)
    slips = [slip for slip, names in cases.items() if names]
    for look in passed:
        slips = [slip for slip, wrong in zip(slips, exercise.wrong_results(look, slips), strict=True) if wrong is None]
    return [_Explanation(slip, cases[slip]) for slip in slips]


def _tried(question: Callable[..., int], *arguments: Any) -> int:
    """What a question about results says; 0 for one that did not expect results as odd as these."""
    try:
        return question(*arguments)
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ArithmeticError):
        return 0
