"""Hints of last resort: what is said of an answer that no rule of its exercise explains."""

import tomllib
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch

from grader.evidence.evidence import RETURNED, pack, unpack
from grader.evidence.traffic import NETWORK_DEMAND
from grader.exercises import EXERCISES
from grader.exercises.references import ROOT
from grader.judging.general import IN_GROUPS_ONLY, LAST_RESORTS

RIGHT = [torch.tensor([1.0, 2.0, 4.0]), torch.tensor([3.0, 5.0, 9.0])]


def hints(found: list, right: list = RIGHT) -> list[str]:
    """The last resorts that fit these results of two ranks."""
    look = SimpleNamespace(right=right, working=[0, 1], evidence=SimpleNamespace(ending=RETURNED, error_kind="", error=""),
                           pairs=lambda: [(rank, found[rank], right[rank]) for rank in (0, 1)])
    return [symptom.id for symptom in LAST_RESORTS if symptom.matches(look)]


@pytest.mark.parametrize("found, hint", [
    ([torch.tensor([1.0, 2.0, 4.0, 0.0]), torch.tensor([3.0, 5.0, 9.0, 0.0])], "too long"),
    ([x[:2] for x in RIGHT], "too short"),
    (RIGHT[::-1], "another rank's result"),
    ([RIGHT[0], RIGHT[0]], "another rank's result"),
    ([torch.zeros(3), RIGHT[1]], "all zeros"),
    ([-x for x in RIGHT], "wrong sign"),
    ([3 * x for x in RIGHT], "too large by a factor"),
    ([RIGHT[0], RIGHT[1] / 2], "too small by a factor"),
    ([x.flip(0) for x in RIGHT], "another order"),
    ([x.double() for x in RIGHT], "another type"),
    ([x[None] for x in RIGHT], "another shape"),
    ([list(x) for x in RIGHT], "list returned"),
    ([RIGHT[0].flip(0)[None], RIGHT[1]], "wrong shape"),
    ([True, RIGHT[1]], "not a tensor"),
])
def test_what_can_be_seen_from_the_results_alone(found, hint):
    assert hints(found) == [hint]


@pytest.mark.parametrize("found", [
    [2 * RIGHT[0], 3 * RIGHT[1]], [RIGHT[0] + 1, RIGHT[1]], [torch.tensor([float("nan")] * 3), RIGHT[1]], ["a", "b"]])
def test_nothing_is_said_of_what_fits_no_pattern(found):
    assert hints(found) == []


@pytest.mark.parametrize("number, said", [
    (300.0, ["too large by a factor"]), (25.0, ["too small by a factor"]), (137.0, [])])
def test_one_number_is_a_multiple_only_if_a_whole_one(number, said):
    assert hints([100.0, number], right=[100.0, 100.0]) == [*said, "ranks disagree"]


def test_ranks_that_should_agree_and_do_not():
    assert hints([2.5, 3.7], right=[4.1, 4.1]) == ["ranks disagree"]
    assert hints([2.5, 2.5], right=[4.1, 4.1]) == hints([2.5, 3.7], right=[4.1, 5.3]) == []


def test_results_and_names_where_none_are_due():
    assert hints([RIGHT[0], RIGHT[1]], right=[None, RIGHT[1]]) == ["result elsewhere"]
    assert hints([{"a": 1, "c": 2}, {"a": 1}], right=[{"a": 1, "b": 2}, {"a": 1}]) == ["other names"]


def test_a_fraction_is_a_number_like_any_other():
    assert unpack(pack([Fraction(1, 4)])) == [0.25]


def test_each_general_text_is_said_by_somebody():
    texts = tomllib.loads((ROOT / "grader/exercises/hints.toml").read_text(encoding="utf-8"))
    said = set().union(*(exercise.ids for exercise in EXERCISES.values()))
    assert texts.keys() <= said | {symptom.id for symptom in (*LAST_RESORTS, IN_GROUPS_ONLY)} | {NETWORK_DEMAND}
