"""Text that others wrote, so that it can be shown: plain in a terminal, and no formula in a spreadsheet."""

import unicodedata

from utils.languages.choice import translated
from utils.words import columns

TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # what changes the direction of text
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last are wide forms


def plain(text: str) -> str:
    """On one line, without control characters, changes of direction and half characters."""
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(c) in TURNS else c
                   for c in text)


def shorten(text: str, width: int) -> str:
    """Cut to `width` columns, with nothing in it that a terminal would obey."""
    text, used, kept = plain(text), 0, []
    for character in text:
        used += columns(character)
        if used > width:
            while kept and used > width - 1:
                used -= columns(kept.pop())
            return "".join(kept).rstrip() + "…"
        kept.append(character)
    return text


def whole(text: str) -> str:
    """Without half characters (lone surrogates), which no file in UTF-8 can hold."""
    return text.encode(errors="replace").decode()


def cell(value: object) -> object:
    """A value for a spreadsheet, which takes no text of ours for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def sentence(remark: str) -> str:
    """A remark with a capital and a full stop, in the language of the course."""
    told = translated(remark)
    return f"{told[:1].upper()}{told[1:]}{'' if told.endswith('.') else translated('.')}"
