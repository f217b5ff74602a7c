"""Most of the points for what works: ordinary inputs and the technique earn theirs where an odd case is missing."""

from collections.abc import Callable

import pytest

from grader.checks import verdict_on
from grader.exercises import EXERCISES
from grader.exercises.references import change, changed_reference
from grader.judging.credit import EDGES_SHARE, earned_by, parts_of

IN_NUMBERS = 3  # ranks: with two, the other rank is always the next one and the last one


def made(name: str, old: str, new: str) -> Callable:
    """The reference with one text replaced by another."""
    return changed_reference(EXERCISES[name].unit, name, change("", old, new))


def mistake(name: str, id: str) -> Callable:
    return next(slip for slip in EXERCISES[name].slips if slip.id == id).make()


LOST = [  # of kinds that people's published programs have; the edge that each loses
    ("DataParallel", lambda: mistake("DataParallel", "buffers forgotten"), {"buffers"}),
    ("broadcast_model", lambda: mistake("broadcast_model", "buffers forgotten"), {"buffers"}),
    ("reduce_when_ready", lambda: mistake("reduce_when_ready", "unreduced divided"), {"unused or frozen layers"}),
    ("RowParallelLinear", lambda: made("RowParallelLinear", "        self.group = group\n",
     "        self.group = group\n        assert linear.in_features % dist.get_world_size(group) == 0\n"), {"refusals"}),
    ("VocabularyParallelEmbedding", lambda: made(
        "VocabularyParallelEmbedding", "        self.group, self.own",
        "        assert embedding.num_embeddings % dist.get_world_size(group) == 0\n        self.group, self.own"),
     {"refusals"}),
    ("ulysses_attention", lambda: made("ulysses_attention", "ValueError", "AssertionError"), {"refusals"}),
]


@pytest.mark.parametrize("name, make, lost", LOST, ids=[f"{name}-{'-'.join(sorted(lost))}" for name, _, lost in LOST])
def test_one_edge_costs_its_share_and_no_more(name, make, lost, warm):
    exercise = EXERCISES[name]
    verdict = verdict_on(exercise, make(), place=warm(exercise))
    assert {part.name for part in verdict.parts if not part.complete} == lost, str(verdict)
    edges = len(verdict.parts) - 1
    missing = exercise.points["values"] * EDGES_SHARE * len(lost) / edges
    assert verdict.points == pytest.approx(exercise.max_points - missing, abs=0.01)
    assert not verdict.passed and verdict.points >= 0.75 * verdict.max_points
    works, missed = str(verdict).splitlines()[1:3]
    assert works.strip().startswith("Works: ordinary inputs")
    assert missed.strip().startswith(f"Missing: {next(iter(lost))} (")


def test_without_ordinary_inputs_nothing_is_earned(warm):
    verdict = verdict_on(EXERCISES["RowParallelLinear"], mistake("RowParallelLinear", "not summed"),
                         place=warm(EXERCISES["RowParallelLinear"]))
    parts = {part.name: part for part in verdict.parts}
    assert verdict.points == 0 and not parts["ordinary inputs"].complete and parts["refusals"].complete
    assert "which come first: before they are right nothing earns points" in str(verdict)


@pytest.mark.parametrize("name", EXERCISES)
def test_marking_asks_for_ordinary_inputs_on_several_ranks_first(name):
    exercise = EXERCISES[name]
    trials = exercise.trials(1, grading=True)
    edges = exercise.edges_among(trials)
    ordinary = [trial for trial, edge in zip(trials, edges, strict=True) if not edge]
    assert list(trials[:len(ordinary)]) == ordinary
    widest = max(trial.case.world_size for trial in trials)
    assert max(trial.case.world_size for trial in ordinary) >= min(widest, IN_NUMBERS)
    if not exercise.faults:
        assert all(any(late.case.name.startswith(trial.case.name) for trial in ordinary)
                   for late in trials if any(late.case.late_s))
    for points in (exercise.points["values"], 10 / 3, 0.1):
        assert earned_by(parts_of(edges, [True] * len(edges), points), points) == points
