"""Words with `code` in them, as HTML; and how wide words are in a terminal."""

import html
import re
import unicodedata


def in_html(text: str) -> str:
    """The text, escaped; what stands between backticks as code."""
    return re.sub("`([^`\n]+)`", r"<code>\1</code>", html.escape(text))


def columns(character: str) -> int:
    """How wide a terminal shows a character."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(text: str, width: int) -> str:
    """With so many spaces behind it that it is `width` columns wide."""
    return text + " " * (width - width_of(text))


def width_of(text: str) -> int:
    """In columns."""
    return sum(map(columns, text))
