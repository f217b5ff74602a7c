"""Which language students are spoken to, and `translated`, through which every text goes that is shown to them."""

import contextlib
import functools
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

ENGLISH = "en"
VARIABLE = "MANY_RANKS_LANGUAGE"
HERE = Path(__file__).resolve().parent
_COURSE = HERE.parents[1] / "course.toml"  # an instructor's own; a students' archive has one with this line alone
_speaking: ContextVar[str | None] = ContextVar("language", default=None)


def languages() -> tuple[str, ...]:
    """English, and those that there are catalogues for."""
    return (ENGLISH, *sorted(file.name for file in HERE.iterdir() if any(file.glob("*.po"))))


def language() -> str:
    """That of `speaking`, else of the environment variable MANY_RANKS_LANGUAGE, else of course.toml, else English."""
    return _speaking.get() or os.environ.get(VARIABLE) or _of_the_course()


@contextlib.contextmanager
def speaking(name: str) -> Iterator[None]:
    """Within the block, texts are shown in this language."""
    token = _speaking.set(name)
    try:
        yield
    finally:
        _speaking.reset(token)


def translated(text: str) -> str:
    """The text in the language of the course, as far as its catalogues go; what they do not know stays English."""
    chosen = language()
    if chosen == ENGLISH:
        return text
    from utils.languages.catalogue import catalogue_of  # an English course needs none of it

    return catalogue_of(HERE / chosen).translated(text)


@functools.cache
def _of_the_course() -> str:
    if not _COURSE.is_file():
        return ENGLISH
    import tomllib  # most courses need none of it

    try:
        said = tomllib.loads(_COURSE.read_text(encoding="utf-8")).get("language", ENGLISH)
    except (OSError, ValueError):
        return ENGLISH
    return said if isinstance(said, str) else ENGLISH
