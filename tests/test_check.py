"""check: what it is given, and what it says."""

import cloudpickle
import pytest
import torch
import torch.distributed as dist

from grader import CheckFailed, check
from grader.exercises import EXERCISES
from grader.exercises.references import functions_of
from grader.judging.compare import first_difference
from grader.sandbox.hand_over import _only_raises
from tests import submissions


@pytest.mark.parametrize("given, words", [
    (3, "takes your function itself; got int"),
    (torch.ones(2), "takes your function itself; got Tensor"),
    (lambda x: x, r"must take \(x, group\)"),
    (lambda a, b, c: a, r"must take \(x, group\)"),
])
def test_the_wrong_thing_is_named(given, words):
    with pytest.raises(TypeError, match=words):
        check.ring_all_reduce(given)


def test_the_function_of_another_exercise_is_named():
    other = functions_of("solutions", "01_collectives")["ring_all_gather"]
    with pytest.raises(TypeError, match="was given the function 'ring_all_gather'"):
        check.ring_all_reduce(other)


@pytest.mark.parametrize("arguments", [(), (1, 2)])
def test_the_wrong_number_of_things(arguments):
    with pytest.raises(TypeError, match="takes one thing, your function"):
        check.ring_all_reduce(*arguments)


def test_an_exercise_that_does_not_exist():
    with pytest.raises(AttributeError, match=r"did you mean check\.ring_all_reduce"):
        check.ring_al_reduce  # noqa: B018
    assert "ring_all_reduce" in dir(check) and set(dir(check)) == set(EXERCISES)


def test_right_numbers_by_the_wrong_technique():
    cloudpickle.register_pickle_by_value(submissions)  # as from a notebook: ranks need not import nbgrader for it
    with pytest.raises(CheckFailed) as caught:
        check.ring_all_reduce(submissions.whole_tensors)
    verdict, text = caught.value.verdict, str(caught.value)
    assert verdict.earned == {"values": 2, "technique": 0}
    assert "whole tensors travel" in text and "✗ at most" in text and "allowed" in text
    assert "2 of 4 points" in verdict._repr_html_()


def test_what_stays_from_one_call_to_the_next_is_named():
    right = functions_of("solutions", "02_data_parallel")["make_buckets"]
    kept: list[list[int]] = []

    def one_list_for_all_calls(sizes, limit):
        kept[:] = right(sizes, limit)
        return kept

    def grows(sizes, limit, buckets=[]):  # noqa: B006
        buckets += right(sizes, limit)
        return [*buckets]

    for function, words in ((one_list_for_all_calls, "the very same list"), (grows, "A default argument that is a list")):
        with pytest.raises(CheckFailed, match=words):
            check.make_buckets(function)


def test_a_result_of_no_use_is_named_without_a_line_of_ours():
    def returns_a_function(x, group):
        return {"sum": lambda: x}

    with pytest.raises(CheckFailed) as caught:
        check.ring_all_reduce(returns_a_function)
    assert "the result['sum'] is a function; expected tensors" in str(caught.value) and ".py" not in str(caught.value)


def test_the_first_wrong_element_is_shown():
    def one_off(x, group):
        dist.all_reduce(x, group=group)
        x[-1:] += 1
        return x

    with pytest.raises(CheckFailed, match=r"rank 0: \[1\]: expected -?\d+, found -?\d+"):
        check.ring_all_reduce(one_off)


# ── untouched skeletons ──


def bare(x):
    """Docstrings and comments change nothing."""
    # Your code here.
    raise NotImplementedError


def with_text(x, group=None):
    raise NotImplementedError("yours to write")


def sometimes(x):
    if x:
        raise NotImplementedError
    return x


def other_error(x):
    raise ValueError


@pytest.mark.parametrize("fn, untouched", [(bare, True), (with_text, True), (sometimes, False), (other_error, False),
                                           (len, False), (type, False), (3, False)])
def test_an_untouched_skeleton_is_known_without_running_it(fn, untouched):
    assert _only_raises(fn) is untouched


# ── exercises that use earlier ones ──


def test_a_skeleton_that_an_exercise_uses_is_named():
    def hello_rank():
        return with_text(1)

    with pytest.raises(CheckFailed, match=r"hello_rank uses what is not written yet:(.|\n)*return with_text\(1\)"):
        check.hello_rank(hello_rank)


@pytest.mark.parametrize("dtype, tolerance, expected", [
    (torch.bfloat16, 1e-6, True), (torch.bfloat16, 0.0, False), (torch.float32, 1e-6, False)])
def test_types_of_few_digits_may_differ_by_a_rounding_where_any_tolerance_is_allowed(dtype, tolerance, expected):
    right = torch.tensor([1.0, -3.0], dtype=dtype)
    assert (first_difference(right * (1 + 2 ** -7), right, tolerance) == "") is expected
    assert first_difference(right * 1.1, right, tolerance)
