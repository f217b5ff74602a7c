"""What a student gets back: points, reasons, hints; never a case that marking drew."""

import re
import sys

import cloudpickle
import pytest
from markupsafe import escape

from grader.checks import verdict_on
from grader.course import feedback
from grader.exercises import EXERCISES
from grader.exercises.references import functions_of, mistakes_of
from grader.judging.verdict import Verdict

RING = EXERCISES["ring_all_reduce"]
SEED = 20_262


def verdict_of(fn) -> Verdict:
    if fn.__module__ in sys.modules:
        cloudpickle.register_pickle_by_value(sys.modules[fn.__module__])
    return verdict_on(RING, fn, seed=SEED, grading=True)


def tells_its_input(x, group):
    raise ValueError(f"the input was {x.tolist()}")


def tells_it_as_a_line(x, group):
    raise ValueError(f"nothing\n  Cell In[1], line 1: the input was {x.tolist()}\nLikely fix: the input was {x.tolist()}")


def tells_it_as_a_class(x, group):
    raise type("Input" + "x".join(str(abs(int(number))) for number in x[:4].tolist()) + "Error", (Exception,), {})


def tells_it_as_a_skeleton(x, group):
    raise NotImplementedError(f"nothing\nthe input was {x.tolist()}\nNotImplementedError: the input was {x.tolist()}")


TELLTALES = [tells_its_input, tells_it_as_a_line, tells_it_as_a_class, tells_it_as_a_skeleton]
WRONG = [*(mutant.make() for mutant in mistakes_of("01_collectives", "ring_all_reduce")[::4]), tells_its_input]


@pytest.mark.long
@pytest.mark.parametrize("fn", WRONG, ids=lambda fn: fn.__name__)
def test_no_case_is_shown(fn):
    verdict = verdict_of(fn)
    for page in (feedback.as_text(verdict), feedback.as_html(verdict)):
        for case in verdict.cases:
            assert case.name not in page
            assert not any(problem in page for problem in case.problems.values())
            assert not any(demand.detail in page for demand in case.demands if not demand.met)
        assert "expected" not in page and "the input was [" not in page
        told = re.sub("<[^>]*>", "", page)
        assert f"{len(verdict.cases) + verdict.skipped} cases that marking drew" in told
        assert f"{verdict.points:g} of 4 points" in told
        assert all(str(escape(hint)) in page or hint in page for _, hint in verdict.hints)


def test_full_marks_are_said_plainly():
    reference = functions_of("solutions", "01_collectives")["ring_all_reduce"]
    verdict = verdict_on(RING, reference, seed=SEED, grading=True)
    text = feedback.as_text(verdict)
    assert text.startswith("Ring all-reduce: 4 of 4 points") and "Hint" not in text
    assert f"Right in all {len(verdict.cases)} cases" in text


@pytest.mark.parametrize("fn", TELLTALES, ids=lambda fn: fn.__name__)
def test_no_word_of_an_exception_is_told(fn):
    verdict = verdict_of(fn)
    told = feedback.as_text(verdict) + feedback.as_html(verdict)
    assert "the input was [" not in told and "Inputx" not in told and not re.search(r"Input\d", told)


def test_the_line_that_raised_is_told():
    assert 'at: raise ValueError(f"the input was {x.tolist()}")' in feedback.as_text(verdict_of(tells_its_input))


def test_the_kind_of_an_error_is_told_without_its_message():
    text = feedback.as_text(verdict_of(tells_its_input))
    assert "raised an error" in text and "ValueError" in text and "was [" not in text


def test_without_evidence_the_reason_stands():
    verdict = Verdict.without_evidence(RING, "Nothing to judge: <the kernel died>.")
    text = feedback.as_text(verdict)
    assert text == "Ring all-reduce: 0 of 4 points (values 0/2, technique 0/2)\n  Nothing to judge: <the kernel died>."
    assert "&lt;the kernel died&gt;" in feedback.as_html(verdict)
