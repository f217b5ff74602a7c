"""Looks a text up in the catalogues of a language: as it stands, else as an entry with fields, else part by part."""

import functools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from babel.messages import Catalog
from babel.messages.pofile import read_po

FIELD = re.compile(r"\{(\w+)\}")
CODE = "code"  # the field that is somebody's line of code: it stays as it is, and so does:
PYTHON = ("None", "True", "False")
LINES = (CODE, "source", "to_line")  # fields in which brackets and quotation marks may be open
WRAPPED = "Likely fix: "  # how the last paragraph of a deadlock begins, which may be broken into lines
FEW = 7  # characters: an entry with fewer of its own, and a field in front, takes no words of English, else it fits any text
LONGEST, MOST_PARTS = 1000, 20  # characters of a line that is looked up; parts that it is taken apart into
_SENTENCES = re.compile(r"(?<=[.!?]) (?=[A-Z(“`])")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[.*\]""")
_VALUE = re.compile(rf"{_QUOTED.pattern}|[\d.,]+ \w+")  # such as 15 s
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|“[^“”]*”")
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_WORD = re.compile(r"[A-Za-z]{2}")
_STOP = re.compile(r"(?<=[。！？]) ")  # after these no space follows
_PARTS = (" — ", ": ", "; ", ", then ", ", ", " and ")  # what joins parts of a sentence, if it is no entry itself
_AFTER = (" — ", ": ")  # of these the first one; what follows explains what is before


def read_catalogue(file: Path) -> Catalog:
    """A PO file.  Raises: OSError; PoFileError where it is none."""
    with file.open("rb") as stream:
        return read_po(stream, abort_invalid=True)


@functools.cache
def catalogue_of(folder: Path) -> "Catalogue":
    """All that a folder of catalogues knows; without entries, and with a warning, where there are none."""
    files = sorted(folder.glob("*.po"))
    if not files:
        there_are = sorted({file.parent.name for file in folder.parent.glob("*/*.po")})
        warnings.warn(f"there is no language {folder.name!r}; there are en, {', '.join(there_are)}", stacklevel=2)
    return Catalogue({message.id: message.string for file in files for message in read_catalogue(file)
                      if message.id and message.string and not message.fuzzy})


@dataclass(frozen=True)
class Template:
    """An entry with fields: its text between them, one more than fields, the fields' names, and the translation."""

    between: tuple[str, ...]
    fields: tuple[str, ...]
    translation: str

    @classmethod
    def of(cls, text: str, translation: str) -> "Template":
        parts = FIELD.split(text)
        return cls(tuple(parts[::2]), tuple(parts[1::2]), translation)

    @property
    def length(self) -> int:
        return sum(map(len, self.between))

    def values_in(self, text: str) -> dict[str, str] | None:
        """What stands in the fields; None where the text does not fit. Takes no longer than to look through it once."""
        first, *_, last = self.between
        end = len(text) - len(last)
        if len(first) > end or not (text.startswith(first) and text.endswith(last)):
            return None
        values, at = {}, len(first)
        for field, following in zip(self.fields, [*self.between[1:-1], None], strict=True):
            to = end if following is None else text.find(following, at, end)
            if to < at:
                return None
            value = text[at:to]
            if field not in LINES and to < len(text) and not _is_whole(value):
                return None
            values.setdefault(field, value)
            at = to + len(following or "")
        return values if self._is_telling(values.values()) else None

    def filled(self, values: Mapping[str, str]) -> str:
        """The translation with these values."""
        return FIELD.sub(lambda field: values.get(field[1], field[0]), self.translation)

    def _is_telling(self, values: Iterable[str]) -> bool:
        return bool(self.between[0]) or self.length >= FEW or not any(map(_is_english, values))


class Catalogue:
    """The entries of a language: English text → translation."""

    def __init__(self, entries: Mapping[str, str]):
        self._entries = dict(entries)
        templates = [Template.of(text, translation) for text, translation in entries.items() if FIELD.search(text)]
        self._templates = sorted(templates, key=lambda template: -template.length)  # most of its own words first
        self._known = functools.lru_cache(maxsize=4096)(self._look_up)

    def translated(self, text: str) -> str:
        """As far as it is known. Lines stay lines, but for a paragraph that was broken into lines."""
        if text in self._entries:
            return self._entries[text]
        before, mark, wrapped = text.partition(WRAPPED)
        lines = [*before.split("\n")[:-1], before.rpartition("\n")[2] + mark + " ".join(wrapped.split())] if mark else (
            text.split("\n"))
        return "\n".join(self._indented(line) for line in lines)

    def _indented(self, line: str) -> str:
        words = line.strip()
        return line.replace(words, self._one_line(words), 1) if words else line

    def _one_line(self, text: str) -> str:
        known = self._known(text)
        return text if known is None else known

    def _look_up(self, text: str) -> str | None:
        """The translation of a whole text or of some parts of it; None where nothing of it is known."""
        if text in self._entries:
            return self._entries[text]
        if len(text) > LONGEST or not _WORD.search(text) or _QUOTED.fullmatch(text):
            return None
        whole = self._whole(text)
        if whole is not None:
            return whole
        sentences = _SENTENCES.split(text)
        return self._of_sentences(sentences) if len(sentences) > 1 else self._of_parts(text)

    def _whole(self, text: str) -> str | None:
        """As an entry with fields; what stands in these is looked up as well."""
        for template in self._templates:
            if (values := template.values_in(text)) is not None:
                return template.filled({field: value if field == CODE or value in PYTHON else self._one_line(value)
                                        for field, value in values.items()})
        return None

    def _of_sentences(self, sentences: Sequence[str]) -> str | None:
        """Each stretch of sentences that is an entry, the longest first; the others stay as they are."""
        told, known = [], False
        while sentences:
            number, found = next(self._stretches(sentences), (1, None))
            known |= found is not None
            told.append(sentences[0] if found is None else found)
            sentences = sentences[number:]
        return _STOP.sub("", " ".join(told)) if known else None

    def _stretches(self, sentences: Sequence[str]) -> Iterator[tuple[int, str]]:
        for number in range(len(sentences), 0, -1):
            text = " ".join(sentences[:number])
            found = self._entries.get(text) or self._whole(text) or self._after_a_name(text)
            if found is None and number == 1:
                found = self._of_parts(text)
            if found is not None:
                yield number, found

    def _after_a_name(self, text: str) -> str | None:
        """Of an entry, with something before it and a colon or a dash."""
        for found in re.finditer("|".join(_AFTER), text):
            if (known := self._entries.get(text[found.end():])) is not None:
                return self._one_line(text[:found.start()]) + self._entries.get(found[0], found[0]) + known
        return None

    def _of_parts(self, text: str) -> str | None:
        """Of what is joined by a colon, a semicolon, commas or "and": all parts of a list are known, or it is left alone."""
        for joint in _PARTS:
            parts = text.split(joint, 1) if joint in _AFTER else text.split(joint)
            told = [self._known(part) for part in parts] if 1 < len(text.split(joint)) <= MOST_PARTS else []
            if told and _are_parts(joint, parts, told):
                return self._entries.get(joint, joint).join(
                    part if known is None else known for part, known in zip(parts, told, strict=True))
        return None


def _is_english(text: str) -> bool:
    """A word or several: no number, and no name or call as in code."""
    return bool(re.fullmatch("[A-Za-z]+", text)) or _has_several_words(text)


def _has_several_words(text: str) -> bool:
    """Outside brackets, as in code."""
    return bool(_WORD.search(text)) and " " in _BRACKETS.sub("", text)


def _are_parts(joint: str, parts: Sequence[str], told: Sequence[str | None]) -> bool:
    """Whether a text was rightly taken apart: what follows a colon is known; each part of a list is, or is one value."""
    if joint in _AFTER:
        return told[-1] is not None
    is_list = all(known is not None or _VALUE.fullmatch(part) or not _has_several_words(part)
                  for part, known in zip(parts, told, strict=True))
    return is_list and (any(told) or joint in (" and ", ", then "))


def _is_whole(text: str) -> bool:
    """Whether it does not cut through brackets or quotation marks."""
    text = _APOSTROPHE.sub("", text)
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    return not set("()[]“”").intersection(text) and not (text.count("'") % 2 or text.count('"') % 2)
