"""From an exercise, its trials and the evidence to a verdict. A pure function: it never runs student code."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from grader.evidence.case import Case
from grader.evidence.evidence import MISSING, NOT_WRITTEN, RETURNED, SKELETON_ERROR, Evidence
from grader.judging.compare import bounded, first_difference, same
from grader.judging.demands import NotSeen, network_agrees
from grader.judging.exercise import TECHNIQUE, VALUES, Demand, Exercise, Look, Slip, Symptom, Trial
from grader.judging.faults import counted
from grader.judging.general import IN_GROUPS_ONLY, LAST_RESORTS
from grader.judging.verdict import CaseVerdict, DemandVerdict, Verdict
from utils.trace.source import Line

DETAIL = 500  # characters of what was seen; names of calls in it are the ranks' own
ROUNDED = 1e-6  # right sums of whole numbers are exact, a third of them is not


def judge(exercise: Exercise, trials: Sequence[Trial], evidences: Sequence[Evidence]) -> Verdict:
    """The verdict on one function.

    Values earn their points only when every case is right on every rank, and every gating demand is met; the technique
    earns its points only on top of right values: doing nothing moves few bytes too.
    """
    if evidences and evidences[0].error_kind == SKELETON_ERROR:
        return Verdict.without_evidence(exercise, _not_written(exercise.id, evidences[0].lines))
    looks = [Look(trial.case, trial.right, _bounded(evidence, trial.right))
             for trial, evidence in zip(trials, evidences, strict=False)]
    rows = [_judge_case(exercise, look) for look in looks]
    if exercise.faults:
        return counted(exercise, trials, rows)
    complete = len(rows) == len(trials)
    values_right = complete and all(row.right for row in rows)
    gates_met = all(d.met for row in rows for d in row.demands if d.gate)
    technique_met = all(d.met for row in rows for d in row.demands)
    earned = {
        VALUES: exercise.points.get(VALUES, 0) * (values_right and gates_met),
        TECHNIQUE: exercise.points.get(TECHNIQUE, 0) * (values_right and technique_met),
    }
    return Verdict(exercise.id, exercise.title, tuple(rows), _hints(exercise, looks, rows), earned,
                   dict(exercise.points), skipped=len(trials) - len(rows))


def _not_written(exercise: str, lines: Sequence[Line]) -> str:
    """The skeleton that was met; where the exercise itself is written, the line that leads to it."""
    if len(lines) > 1 and SKELETON_ERROR in lines[-1].code:
        return f"{exercise} uses what is not written yet:\n{lines[-2]}\n{lines[-1]}"
    return NOT_WRITTEN.format(exercise)


def _bounded(evidence: Evidence, right: Sequence[Any]) -> Evidence:
    """The same, without outputs that are too large to be looked at."""
    return replace(evidence, outputs=bounded(evidence.outputs[:len(right)], right))


def _judge_case(exercise: Exercise, look: Look) -> CaseVerdict:
    problems = {}
    for rank, found, expected in look.pairs():
        difference = first_difference(_read(exercise, look.case, found), expected, exercise.tolerance)
        if difference:
            problems[rank] = difference
    ended = look.evidence.ending == RETURNED
    demands = tuple(_judge_demand(demand, look) for demand in asked_of(exercise, look)) if ended else ()
    return CaseVerdict(look.case.name, look.case.world_size, tuple(look.working), problems, look.evidence.ending,
                       look.evidence.error, demands, look.evidence.error_kind,
                       tuple(dict.fromkeys(line.code for line in look.evidence.lines if line.code)), look.evidence.fix)


def _read(exercise: Exercise, case: Case, found: Any) -> Any:
    """What of a result is compared; a result that cannot be read is compared as it is, and differs."""
    try:
        return found if found is MISSING else exercise.technique.reading(case, found)
    except (TypeError, ValueError, LookupError, AttributeError):
        return found


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


def _hints(exercise: Exercise, looks: list[Look], rows: list[CaseVerdict]) -> tuple[tuple[str, str], ...]:
    """(id, text) of the one thing to fix first: an unmet gate, else what explains the failed cases, else another demand."""
    unmet = {d.id for row in rows for d in row.demands if not d.met}
    failed = [look for look, row in zip(looks, rows, strict=True) if not row.right]
    failed = [look for look in failed if look.case.shows_slips] or failed
    demands = list(dict.fromkeys(demand for look in looks for demand in asked_of(exercise, look)))
    gates = [d for d in demands if d.gate and d.id in unmet and not (failed and d.for_right_values)]
    others = [d for d in demands if d.id in unmet] if not failed else []
    return tuple((first.id, first.hint) for first in (gates or _explanations(exercise, failed) or others)[:1])


def _explanations(exercise: Exercise, failed: list[Look]) -> list[Symptom | Slip]:
    """What explains the failed cases: all of them, if anything does; else most. At last: what any function can do."""
    technique = exercise.technique

    def matched(symptoms: Sequence[Symptom]) -> list[tuple[int, Symptom]]:
        counts = []
        for symptom in symptoms:
            count = sum(bool(_tried(symptom.matches, look)) for look in failed)
            refuted = any(_tried(symptom.refuted, look) for look in failed)
            if not refuted and (count == len(failed) or not symptom.alone):
                counts.append((count, symptom))
        return counts

    slips = [(_tried(_explained, slip, exercise, failed), slip) for slip in exercise.slips]
    known = [*matched(technique.symptoms), *slips, *matched([*technique.fallbacks, IN_GROUPS_ONLY])]
    sure = [(count, mistake) for count, mistake in known if not getattr(mistake, "weak", False)]
    explained = sure if any(count for count, _ in sure) else [*matched(LAST_RESORTS), *known]
    most = max((count for count, _ in explained), default=0)
    return [mistake for count, mistake in explained if count == most and count]


def _explained(slip: Slip, exercise: Exercise, failed: list[Look]) -> int:
    """How many failed cases a slip explains; none if one in which it shows refutes it."""
    count, tolerance = 0, max(exercise.tolerance, ROUNDED)
    for look in failed:
        wrong = slip.results(look)
        if wrong is None:
            continue
        if look.evidence.ending != RETURNED or not all(
                same(_read(exercise, look.case, found), wrong[rank], tolerance) for rank, found, _ in look.pairs()):
            return 0
        count += 1
    return count


def _tried(question: Callable[..., int], *arguments: Any) -> int:
    """What a question about results says; 0 for one that did not expect results as odd as these."""
    try:
        return question(*arguments)
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ArithmeticError):
        return 0
