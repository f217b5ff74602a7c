"""Predictions: a question before a result is seen, the reader's guess, and then guess, formula and measurement side by side.

Never graded and never in the way: without a guess, every cell runs as well.
"""

import html
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from utils.notebook import record
from utils.words import in_html

NOT_ASKED = "(the cell with the question was not run)"
RIGHT = "right"  # the verdict on a guess that is near enough
ONE_LINE = 100  # characters of options that are listed in one line
NEAR = 0.05  # a guess this near is called right: nobody should have to type 1.3333, and measured times vary


@dataclass
class Question:
    """One question of a unit, and what is known of its answer so far.

    text: what is asked; unit: of the answer, such as "KiB", or ""; options: to choose from, or () where a number is asked.
    guess, formula, measured: numbers or options; None where there is none (yet).
    """

    text: str
    unit: str = ""
    options: tuple[str, ...] = ()
    guess: Any = None
    formula: Any = None
    measured: Any = None
    why: str = ""

    @property
    def answer(self) -> Any:
        """What a guess is held against: the measurement, or the formula where nothing is measured."""
        return self.formula if self.measured is None else self.measured

    def fault(self, guess: Any) -> str:
        """What is wrong with a guess of this form, or ""."""
        if self.options:
            wanted = " or ".join(map(repr, self.options))
            return "" if guess in self.options else f"the guess should be {wanted}; it is {guess!r}"
        fits = isinstance(guess, Real) and not isinstance(guess, bool) and math.isfinite(guess)
        return "" if fits else f"the guess should be a number, such as 12 or 0.5; it is {guess!r}"

    def verdict(self) -> str:
        """How guess and answer compare, in words."""
        if self.answer is None:
            return "not measured yet"
        if self.guess is None:
            return "no guess"
        if self.options:
            return RIGHT if self.guess == self.answer else "not so"
        return _how_far(float(self.guess), float(self.answer))


@dataclass
class Predictions:
    """The questions of one unit, and this reader's guesses. `predict = Predictions("03_zero1")` in its first cell."""

    unit: str
    questions: dict[str, Question] = field(default_factory=dict)

    def __post_init__(self):
        record.note_start()

    def number(self, name: str, text: str, guess: Any = ..., unit: str = "") -> "Asked":
        """Ask for a number. guess: `...` for none yet, then the field below the cell may give it; name: of the question."""
        return self._ask(name, guess, Question(text, unit))

    def choice(self, name: str, text: str, options: list[str], guess: Any = ...) -> "Asked":
        """Ask for one of `options`."""
        if len(options) < 2:
            raise ValueError(f"a choice needs two options or more; {name!r} has {options!r}")
        return self._ask(name, guess, Question(text, options=tuple(options)))

    def compare(self, name: str, measured: Any = None, formula: Any = None, why: str = "") -> None:
        """Show the guess beside formula and measurement (one of them at least), and why they are or are not alike.

        Of a question that was not asked, since its cell was not run: formula and measurement alone.
        Raises: ValueError where there is nothing to compare with.
        """
        question = self.questions.get(name) or Question(NOT_ASKED)
        if measured is None and formula is None:
            raise ValueError(f"compare({name!r}) needs measured= or formula=")
        question.measured, question.formula, question.why = measured, formula, why
        if name in self.questions:
            self._note(name)
        _display(Compared([question]))

    def table(self) -> "Compared":
        """All questions so far, with guesses and answers: for the unit's end."""
        return Compared(list(self.questions.values()))

    def _ask(self, name: str, guess: Any, question: Question) -> "Asked":
        earlier = self.questions.get(name)  # the cell was run again, or the kernel anew: what the field said still counts
        said = earlier.guess if earlier else record.guess_of(self.unit, name)
        question.guess = None if question.fault(said) else said
        self.questions[name] = question
        fault = "" if guess is ... else question.fault(guess)
        if guess is not ... and not fault:
            question.guess = guess
            self._note(name)
        return Asked(question, fault, lambda: self._note(name))

    def _note(self, name: str) -> None:
        """Keep the guess, if there is one, where a new kernel finds it."""
        question = self.questions[name]
        if question.guess is not None:
            verdict = "" if question.answer is None else question.verdict()
            record.note_guess(self.unit, name, question.text, question.guess, verdict)


@dataclass(frozen=True)
class Asked:
    """A question that shows itself: with a field and a button in JupyterLab, in words elsewhere."""

    question: Question
    fault: str = ""
    note: Callable[[], None] = lambda: None

    def keep(self, guess: Any) -> str:
        """Keep a guess that was made in the field; returns what is shown then."""
        fault = self.question.fault(guess)
        if not fault:
            self.question.guess = guess
            self.note()
        return f"⚠ {fault}" if fault else self._status()

    def _status(self) -> str:
        if self.fault:
            return f"⚠ {self.fault}"
        if self.question.guess is None:
            return "No guess yet."
        return f"Your guess: {_shown(self.question.guess, self.question)}. Run the next cell to see."

    def __repr__(self) -> str:
        options = self.question.options
        if sum(map(len, options)) > ONE_LINE:
            return "\n".join([f"Predict: {self.question.text}", *(f"  {option!r}" for option in options), self._status()])
        in_brackets = f" ({' / '.join(options)})" if options else ""
        return f"Predict: {self.question.text}{in_brackets}\n{self._status()}"

    def _repr_html_(self) -> str:
        return f"{self._question_html()}<div>{html.escape(self._status())}</div>"

    def _question_html(self) -> str:
        return f"<div><b>Predict.</b> {in_html(self.question.text)}</div>"

    def _ipython_display_(self) -> None:
        from utils.notebook.fields import field_for  # widgets take a while to import: not before there is one to show

        still = {"text/plain": repr(self), "text/html": self._repr_html_()}
        bundle = field_for(self.question, self._question_html(), self._status(), self.keep)._repr_mimebundle_()
        _display((bundle[0] if isinstance(bundle, tuple) else bundle) | still, raw=True)


@dataclass(frozen=True)
class Compared:
    """Questions with guess, formula, measurement and verdict; a table that shows itself."""

    questions: list[Question]

    @property
    def rows(self) -> list[list[str]]:
        """The texts of each row, in the order of the headings."""
        return [[q.text, *(_shown(value, q) for value in (q.guess, q.formula, q.measured)), q.verdict()]
                for q in self.questions]

    @property
    def only_answers(self) -> bool:
        """Whether each question has options, and nothing is measured: then the right option is no formula."""
        return all(q.options and q.measured is None for q in self.questions)

    def __repr__(self) -> str:
        if not self.questions:
            return "Nothing was asked yet."
        lines = []
        for question, (text, guess, formula, measured, verdict) in zip(self.questions, self.rows, strict=True):
            found = f"answer {formula}" if self.only_answers else f"measured {measured}"
            found = f"formula {formula} · {found}" if question.formula is not None and not self.only_answers else found
            values = f"your guess {guess} · {found} · {verdict}"
            lines += [text, f"  {values}", *([f"  {question.why}"] if question.why else [])]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if not self.questions:
            return "<p>Nothing was asked yet.</p>"
        names = ("question", "your guess", "answer" if self.only_answers else "formula", "measured", "")
        left_out = 3 if self.only_answers else 2 if all(q.formula is None for q in self.questions) else None
        shown = [number for number in range(len(names)) if number != left_out]
        head = "".join(f"<th style='text-align:left; white-space:nowrap'>{names[number]}</th>" for number in shown)
        body = "".join("<tr>" + "".join(f"<td style='text-align:left; {_wrapping(row[number])}'>{in_html(row[number])}</td>"
                                        for number in shown) + "</tr>" for row in self.rows)
        why = self.questions[0].why if len(self.questions) == 1 else ""
        note = f"<p style='max-width:48em'>{in_html(why)}</p>" if why else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _display(thing: Any, **how: Any) -> None:
    from IPython.display import display  # not above: ranks import `utils`, and they need no IPython

    display(thing, **how)


def _wrapping(text: str) -> str:
    """A number and its unit stay on one line."""
    return "white-space:nowrap" if len(text) <= 24 else ""


def _shown(value: Any, question: Question) -> str:
    if value is None:
        return "–"
    if question.options or isinstance(value, str):
        return str(value)
    number = f"{float(value):,.4g}" if abs(value) < 1e4 else f"{float(value):,.0f}"
    return f"{number} {question.unit}".strip()


def _how_far(guess: float, answer: float) -> str:
    counted = guess.is_integer() and answer.is_integer()  # 102 is not 100
    if math.isclose(guess, answer, rel_tol=1e-9 if counted else NEAR, abs_tol=1e-12):
        return RIGHT
    if guess * answer <= 0:
        return f"{abs(guess - answer):,.3g} too {'much' if guess > answer else 'little'}"
    factor = max(guess / answer, answer / guess)
    where = "large" if abs(guess) > abs(answer) else "small"
    return f"{factor:.3g} times too {where}" if factor >= 1.5 else f"{abs(guess / answer - 1):.0%} too {where}"
