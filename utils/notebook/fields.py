"""The field and the button under a question: what the reader types there is kept as the guess."""

import html
from collections.abc import Callable
from typing import Any

import ipywidgets


def field_for(question: Any, question_html: str, status: str, keep: Callable[[Any], str]) -> ipywidgets.VBox:
    """A question with a number field or options, and a button.

    question: has `options`, `unit` and `guess`; keep: called with the guess, returns the line to show below.
    """
    below = ipywidgets.HTML(html.escape(status))
    if question.options:
        entry = ipywidgets.RadioButtons(options=question.options, value=question.guess, layout={"width": "max-content"})
    else:
        text = "" if question.guess is None else f"{question.guess:.15g}"
        entry = ipywidgets.Text(text, placeholder="your guess", continuous_update=False, layout={"width": "9em"})
    unit = ipywidgets.Label(question.unit)
    button = ipywidgets.Button(description="Keep my guess", layout={"width": "max-content"})

    def kept(_=None) -> None:
        below.value = html.escape(keep(entry.value if question.options else _number(entry.value)))

    button.on_click(kept)
    if not question.options:
        entry.observe(kept, "value")  # Enter, or leaving the field, keeps it too
    return ipywidgets.VBox([ipywidgets.HTML(question_html), ipywidgets.HBox([entry, unit, button]), below])


def _number(text: str) -> float | str:
    """The number that was typed, with or without thousands commas; the text itself where it is none."""
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        return text
