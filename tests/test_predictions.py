"""Predictions: kept when they can be read, refused in words when not, compared with what came; never in the way."""

import pytest

from utils import Predictions


@pytest.fixture
def predict():
    return Predictions("00_start_here")


@pytest.fixture
def compared(predict, capsys):
    def shown(name, **values) -> str:
        predict.compare(name, **values)  # without a notebook, display() prints
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("guess, verdict", [
    (24, "right"), (24.3, "right"), (25, "4% too large"), (48, "2 times too large"), (8, "3 times too small"),
    (20, "17% too small"), (-24, "48 too little"), (0, "24 too little")])
def test_a_number_is_compared(predict, compared, guess, verdict):
    predict.number("bytes", "How many?", guess, unit="KiB")
    assert compared("bytes", measured=24, formula=24.0).splitlines()[1].endswith(verdict)


def test_a_choice_is_compared(predict, compared):
    predict.choice("first", "Which comes first?", ["send", "recv"], "send")
    assert "right" in compared("first", measured="send", why="It is posted first.")
    predict.choice("first", "Which comes first?", ["send", "recv"], "recv")
    assert "not so" in compared("first", measured="send")


def test_of_options_alone_there_is_an_answer_and_nothing_measured(predict, compared):
    options = ["something is reduced twice", "some of the gradients are not reduced at all",
               "the weights of the step before are used"]
    assert repr(predict.choice("bug", "What is wrong?", options)).count("\n") == 4  # of many words: one a line
    assert compared("bug", formula=options[1]).splitlines()[1] == f"  your guess – · answer {options[1]} · no guess"
    assert "measured" not in predict.table()._repr_html_() and options[1] in predict.table()._repr_html_()


@pytest.mark.parametrize("guess", ["24", float("nan"), True, [24], None])
def test_what_is_no_number_is_refused_in_words_and_nothing_is_raised(predict, compared, guess):
    asked = predict.number("bytes", "How many?", guess)
    assert "should be a number" in repr(asked) and "should be a number" in asked._repr_html_()
    assert "no guess" in compared("bytes", measured=24)


def test_the_field_keeps_a_guess_and_running_the_cell_again_does_not_lose_it(predict):
    asked = predict.number("bytes", "How many?", unit="KiB")
    assert "should be a number" in asked.keep("many") and "12 KiB" in asked.keep(12.0)
    assert "12 KiB" in repr(predict.number("bytes", "How many?", unit="KiB"))
    assert "12 KiB" in repr(predict.table())


def test_without_a_guess_everything_runs(predict, compared):
    assert "Nothing was asked yet" in repr(predict.table())
    predict.number("bytes", "How many?")
    assert "no guess" in compared("bytes", measured=24)
    assert "24" in predict.table()._repr_html_()


def test_markup_in_texts_is_shown_as_text(predict):
    asked = predict.number("bytes", "How many <b>bytes</b> has `a<b`?")
    assert "<b>bytes" not in asked._repr_html_() and "<b>bytes" not in predict.table()._repr_html_()
    assert "<code>a&lt;b</code>" in asked._repr_html_() and "<code>a&lt;b</code>" in predict.table()._repr_html_()


def test_without_its_question_an_answer_is_shown_all_the_same(predict, capsys):
    for answer in ("twice", 2):
        predict.compare("growth", measured=answer, why="because")
        said = capsys.readouterr().out
        assert str(answer) in said and "was not run" in said and "because" in said
    assert "Nothing was asked yet" in repr(predict.table())


def test_what_cannot_be_asked_or_compared_is_named(predict):
    predict.number("bytes", "How many?")
    with pytest.raises(ValueError, match="measured= or formula="):
        predict.compare("bytes")
    with pytest.raises(ValueError, match="two options"):
        predict.choice("one", "Which?", ["only"])


def test_the_widget_keeps_what_is_typed(predict):
    from utils.notebook.fields import field_for

    asked = predict.number("bytes", "How many?", unit="KiB")
    box = field_for(asked.question, "How many?", "", asked.keep)
    (_, row, below) = box.children
    row.children[0].value = "1,024"
    assert asked.question.guess == 1024 and "1,024 KiB" in below.value
    row.children[0].value = "lots"
    assert asked.question.guess == 1024 and "should be a number" in below.value
