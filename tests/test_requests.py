"""What students ask to have looked at again: an e-mail's text will do; a file that holds none is named in a sentence."""

import pytest

from grader.course.requests import parsed

TITLES = {"reduce": "Tree reduce", "ring_time": "Time of a ring"}


@pytest.mark.parametrize("text, found", [
    ("Exercise: reduce\nIt is right.", [("reduce", "It is right.", "")]),
    ("\ufeffHello,\r\n\r\n> **Exercise**: `Tree reduce`.\r\nwhy?\r\n\r\nAnswer: Because.\r\nSee me.\r\n",
     [("reduce", "Hello,\n\nwhy?", "Because.\nSee me.")]),
    ("Exercise: ring_time\na\nExercise: reduce\nb\nanswer:\nc",
     [("ring_time", "a", ""), ("reduce", "b", "c")]),
    ("Exercise: reduce\n\x1b[2J and Exercise: no head", [("reduce", "\ufffd[2J and Exercise: no head", "")]),
])
def test_a_request_is_an_exercise_and_words(text, found):
    assert list(parsed(text.encode(), TITLES)) == found


@pytest.mark.parametrize("content, words", [
    (b"", "has no line \"Exercise: NAME\", with one of reduce, ring_time; it is empty"),
    (b"\nDear Dr. Roe,", "it begins with \u201cDear Dr. Roe,\u201d"),
    (b"hi\nExercise: ring_tme\nx", "asks in line 2 for the exercise 'ring_tme': expected one of reduce, ring_time. "
                                   "Did you mean 'ring_time'?"),
    (b"Exercise: reduce\n\nAnswer: no", "has no words below line 1, \"Exercise: reduce\": expected why"),
    ("Exercise: reduce\nm\u00f6glich".encode("latin-1"), "is not in UTF-8"),
])
def test_what_is_none_is_told_with_what_was_expected(content, words):
    with pytest.raises(ValueError) as caught:
        list(parsed(content, TITLES))
    assert words in str(caught.value)
