"""Every reference earns full points, every skeleton none, every mutant its own hint."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from grader.broken import is_broken
from grader.checks import PUBLIC_SEED, trials_of, tried_on, verdict_on
from grader.course.mark import PATIENCE
from grader.evidence.evidence import RETURNED, Evidence
from grader.exercises import EXERCISES, UNITS, order_of
from grader.exercises.references import ROOT, functions_of, mistakes_of, reference_cell
from grader.judging.compare import same
from grader.judging.demands import HIDDEN_DEMAND, NotSeen
from grader.judging.exercise import Demand, Exercise, Look, Trial
from grader.judging.judge import judge
from tests.many import TIMEOUT_S, verdict_with
from tests.perturbed import perturbed
from utils.trace.trace import Trace

PAIRS = [(unit, name) for unit in UNITS for name in order_of(unit)]
ALWAYS = ("00_start_here", "01_collectives")  # whose mutants all run in `make test`; of the others one an exercise


ONE_IN = 4  # of the mistakes that their results tell, which are judged by these alone as well


def _mutants(unit: str, name: str) -> Iterator:
    """The first that its results don't tell is tried in all cases, others in one; pytest --every-case tries all in all."""
    told, mistakes = {slip.name for slip in EXERCISES[name].slips}, mistakes_of(unit, name)
    first = next((mutant for mutant in mistakes if mutant.name not in told), None)
    for number, mutant in enumerate(mistakes):
        if mutant.name not in told or number % ONE_IN == 0:
            marks = [pytest.mark.long] * (number > 0 and unit not in ALWAYS)
            yield pytest.param(name, mutant, mutant is first, id=f"{name}-{mutant.name}", marks=marks)


MUTANTS = [mutant for pair in PAIRS for mutant in _mutants(*pair)]
GRADING_SEED = 20_261
# Of what is weighed outside the ranks, and of results themselves, which tests of schedules judge.
ELSEWHERE = {HIDDEN_DEMAND, "process too large", "bar of ZB-H1", "bar with more memory"}


@pytest.mark.short
@pytest.mark.parametrize("name", [name for unit, name in PAIRS if unit != UNITS[0]])
def test_reference_earns_everything(name, warm):
    """tests/test_notebooks.py runs them all, on fresh ranks, as a student has them; `make test` only unit 00."""
    verdict = verdict_on(EXERCISES[name], functions_of("solutions", EXERCISES[name].unit)[name], place=warm(EXERCISES[name]))
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for _, name in PAIRS])
def test_reference_earns_everything_in_grading(name, warm):
    """And each of its demands would not be met by some other evidence."""
    exercise = replace(EXERCISES[name], timeout_s=PATIENCE * EXERCISES[name].timeout_s)  # as in marking
    trials = trials_of(name, GRADING_SEED, True)
    evidences = list(tried_on(exercise, functions_of("solutions", exercise.unit)[name], trials, warm(exercise)))
    verdict = judge(exercise, trials, evidences)
    assert verdict.passed, str(verdict)
    assert set(never_broken(exercise, trials, evidences)) <= ELSEWHERE


def never_broken(exercise: Exercise, trials: Sequence[Trial], evidences: Sequence[Evidence]) -> list[str]:
    """The ids of demands that are met whatever the ranks leave behind."""
    looks = [Look(trial.case, trial.right, evidence, exercise.tolerance)
             for trial, evidence in zip(trials, evidences, strict=True)]
    left = {demand.id: demand for demand in exercise.technique.demands}
    for look in sorted(looks, key=lambda look: (look.refused, len(look.working) < 2)):
        for _, other in perturbed(look.evidence):
            if not left:
                return []
            left = {id: demand for id, demand in left.items() if is_met(demand, replace(look, evidence=other))}
    return list(left)


def is_met(demand: Demand, look: Look) -> bool:
    try:
        return demand.judge(look)[0]
    except NotSeen:
        return False
    except Exception:  # evidence that no ranks could leave: it tells nothing
        return True


@pytest.mark.parametrize("name", EXERCISES)
def test_skeleton_earns_nothing(name):
    verdict = verdict_on(EXERCISES[name], functions_of("notebooks", EXERCISES[name].unit)[name])
    assert verdict.points == 0 and not verdict.passed
    is_skeleton = not is_broken(reference_cell(EXERCISES[name].unit, name))  # a program with a bug is a wrong answer
    assert ("not written yet" in str(verdict)) == is_skeleton


def test_where_flops_are_counted_torchs_imports_are_made_once_for_all_ranks():
    """A rank that makes them itself takes seconds: torch imports 800 modules where a mode looks at operations."""
    counting = [exercise for exercise in EXERCISES.values()
                if re.search("FlopCounter|call_split_l", source_of(exercise.caller))]
    assert len(counting) >= 6 and [exercise.id for exercise in counting if not exercise.trains] == []


def source_of(caller: str) -> str:
    return (ROOT / "grader" / caller).read_text() if caller.endswith(".py") else caller


@pytest.mark.parametrize("name, mutant, in_all_cases", MUTANTS)
def test_mutant_gets_its_hint(name, mutant, in_all_cases, warm, request):
    exercise, place = replace(EXERCISES[name], timeout_s=TIMEOUT_S), warm(EXERCISES[name])
    if in_all_cases or request.config.getoption("--every-case"):
        verdict = verdict_on(exercise, mutant.make(), place=place)
    else:
        verdict = verdict_with(mutant.id, exercise, mutant.make(), place)
    assert not verdict.passed and verdict.points < verdict.max_points
    assert verdict.hint_ids[:1] == (mutant.id,), str(verdict)
    assert len(str(verdict).splitlines()) <= 42, "more than one screen"


@pytest.mark.parametrize("name", EXERCISES)
def test_what_a_mistake_makes_of_the_cases_leads_to_its_hint(name):
    """Of the public cases in which it shows; of its calls nothing is known here, so no demand and no symptom is asked."""
    exercise, trials = EXERCISES[name], trials_of(name)
    alone = replace(exercise, technique=replace(exercise.technique, demands=(), symptoms=(), fallbacks=()))
    made = [exercise.run(exercise, trial.case, exercise.slips) for trial in trials if exercise.slips]
    got = {}
    for slip, results in zip(exercise.slips, zip(*made, strict=True), strict=True):
        cases = [(trial, Evidence(list(found), RETURNED, Trace(trial.case.world_size)))
                 for trial, found in zip(trials, results, strict=True) if found is not None and trial.case.shows_slips]
        verdict = judge(alone, *zip(*cases, strict=True)) if cases else None
        got[slip.name, slip.id] = verdict.hint_ids[0] if verdict and verdict.hint_ids else ""
    assert {name: hint for (name, id), hint in got.items() if hint != id} == {}


def look_alike(some: list | None, others: list | None) -> bool:
    """Whether nothing tells what two slips make of one case apart."""
    if some is None or others is None:
        return some is others
    return all(same(a, b) or same(b, a) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("name", EXERCISES)
def test_every_slip_shows_and_no_two_look_alike(name):
    """From what the slips make of the public cases' right results; two programs may make one mistake."""
    exercise = EXERCISES[name]
    trials, slips = exercise.trials(PUBLIC_SEED, grading=False), exercise.slips
    shown = dict(zip(slips, zip(*(exercise.wrong_results(trial, slips) for trial in trials), strict=True), strict=True))
    assert [slip.id for slip, results in shown.items() if not any(results)] == []
    assert [(a.id, b.id) for a, b in itertools.combinations(slips, 2)
            if a.id != b.id and all(map(look_alike, shown[a], shown[b]))] == []


@pytest.mark.parametrize("unit, name", PAIRS)
def test_mutants_are_of_several_mistakes(unit, name):
    assert len({mutant.id for mutant in mistakes_of(unit, name)}) >= 3
