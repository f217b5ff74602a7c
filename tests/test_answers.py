"""Right answers of students are accepted, and wrong ones that have a label are rejected: a part of them."""

import pytest

from grader.checks import verdict_on
from grader.exercises import EXERCISES
from grader.exercises.references import with_source
from tests.answers import RIGHT, answers, as_it_should, in_short, name_of
from tests.many import earns_everything, in_short_time

TRIED = [answer for answer in answers() if in_short(answer)]


def test_no_two_answers_of_an_exercise_have_one_label_or_one_code():
    every = answers()
    for key in ("label", "code"):
        named = [(answer["exercise"], answer[key]) for answer in every]
        assert len(set(named)) == len(named)
    known = {(name, known) for name, exercise in EXERCISES.items() for known in exercise.hints}
    assert {(answer["exercise"], answer["hint"]) for answer in every if "hint" in answer} <= known


@pytest.mark.long
@pytest.mark.parametrize("answer", [answer for answer in TRIED if answer["kind"] == RIGHT], ids=name_of)
def test_right_answer_is_accepted(answer, warm):
    fn, exercise = _of(answer)
    assert earns_everything(exercise, fn, warm(exercise)), str(verdict_on(exercise, fn, place=warm(exercise)))


@pytest.mark.long
@pytest.mark.parametrize("answer", [answer for answer in TRIED if "hint" in answer], ids=name_of)
def test_wrong_answer_is_rejected(answer, warm):
    """`make answers` says which get another hint than they should."""
    fn, exercise = _of(answer)
    verdict = verdict_on(exercise, fn, place=warm(exercise))
    assert as_it_should(answer, verdict), f"{answer['mistake']}\n{verdict}"


def _of(answer):
    return with_source(answer["unit"], answer["exercise"], answer["code"]), in_short_time(answer["exercise"])
