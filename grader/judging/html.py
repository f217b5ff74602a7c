"""HTML from templates (Jinja2): whatever is filled in is escaped."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from markupsafe import Markup

from utils.languages.choice import ENGLISH, language, translated
from utils.words import in_html


def fill_in(module_file: str, finalize: Callable[[Any], Any] | None = None, **values: Any) -> str:
    """The template that lies beside a module, under its name.

    There, `| translated`: a text in the language of the course; `| words`: text with code in it; language(): that language.

    finalize: what is done to each value before it is escaped.  Raises: UndefinedError for a value that is missing.
    """
    template = Path(module_file).with_suffix(".html")
    return _environment(template.parent, finalize).get_template(template.name).render(values)


@functools.cache
def _environment(folder: Path, finalize: Callable[[Any], Any] | None) -> Environment:
    made = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, finalize=finalize,
                       trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    made.filters["words"] = lambda text: Markup(in_html(text))
    made.filters["translated"] = pass_context(lambda context, text: translated(text))  # never once for all, at compile time
    made.globals |= {"language": language, "in_language": _in_language}
    return made


def _in_language() -> Markup:
    """The attribute that says what language an element is in, where that is not English."""
    return Markup('' if language() == ENGLISH else f' lang="{language()}"')
