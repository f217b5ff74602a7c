"""HTML from templates (Jinja2): whatever is filled in is escaped."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from utils.words import in_html


def fill_in(module_file: str, finalize: Callable[[Any], Any] | None = None, **values: Any) -> str:
    """The template that lies beside a module, under its name; `| words` there: text with code in it.

    finalize: what is done to each value before it is escaped.  Raises: UndefinedError for a value that is missing.
    """
    template = Path(module_file).with_suffix(".html")
    return _environment(template.parent, finalize).get_template(template.name).render(values)


@functools.cache
def _environment(folder: Path, finalize: Callable[[Any], Any] | None) -> Environment:
    made = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, finalize=finalize,
                       trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    made.filters["words"] = lambda text: Markup(in_html(text))
    return made
