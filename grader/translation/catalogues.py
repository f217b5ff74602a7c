"""PO files of a language, brought up to date with the sources; and what is wrong with one."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages import Catalog
from babel.messages.pofile import write_po

from grader.translation.sentences import JOINTS, sentences
from utils.languages.catalogue import FIELD, read_catalogue
from utils.languages.choice import HERE

HEADER = """Many Ranks, One Loss: what students are told outside notebooks.
`python -m grader translate LANGUAGE` brings this file up to date; docs/translating.md says how to fill it in.
A text in braces, such as {rank}, is filled in later: it stays as it is, anywhere in the translation."""


@dataclass(frozen=True)
class State:
    """Of one catalogue: how many sentences there are, and those that are untranslated, unsure, gone or wrong in a field."""

    name: str
    total: int
    untranslated: tuple[str, ...]
    unsure: tuple[str, ...]
    gone: tuple[str, ...]
    wrong_fields: tuple[str, ...]

    @property
    def in_order(self) -> bool:
        """Nothing is gone or wrong, and nothing waits for a translator."""
        return not (self.untranslated or self.unsure or self.gone or self.wrong_fields)

    def lines(self) -> Iterator[str]:
        """For a person."""
        waiting = len(self.untranslated) + len(self.unsure)
        yield f"{self.name}: {self.total - waiting} of {self.total} translated"
        for what, texts in (("not translated", self.untranslated), ("unsure (fuzzy)", self.unsure), ("gone", self.gone),
                            ("other fields in braces than the English text", self.wrong_fields)):
            if texts:
                yield f"  {what}: {len(texts)}, such as {texts[0]!r:.100}"


def file_of(language: str, catalogue: str) -> Path:
    return HERE / language / f"{catalogue}.po"


def updated(language: str, catalogue: str) -> Catalog:
    """What the file has to say now. A sentence that has changed keeps its translation, marked as unsure (fuzzy).

    Raises: ValueError for a language that nobody knows; PoFileError for a file that is none.
    """
    template = Catalog()
    for text, places in sentences(catalogue).items():
        comment = ["between the parts of a list, or at the end of a sentence"] if text in JOINTS else []
        template.add(text, locations=[(place, None) for place in dict.fromkeys(places)], auto_comments=comment)
    file = file_of(language, catalogue)
    made = read_catalogue(file) if file.exists() else Catalog(language, fuzzy=False)
    made.locale, made.header_comment = language, "\n".join(f"# {line}" for line in HEADER.split("\n"))
    made.update(template, no_fuzzy_matching=not len(made), update_creation_date=False)
    for id in [id for id, message in made.obsolete.items() if not message.string]:  # nothing of it is worth keeping
        del made.obsolete[id]
    return made


def text_of(catalogue: Catalog) -> bytes:
    """The file's content, without dates and numbers of lines, which would change each time."""
    stream = io.BytesIO()
    write_po(stream, catalogue, width=124, omit_header=False, include_lineno=False, ignore_obsolete=False)
    kept = [line for line in stream.getvalue().decode().split("\n")
            if not line.startswith(('"POT-Creation-Date', '"PO-Revision-Date', '"Last-Translator', '"Language-Team',
                                    '"Report-Msgid', '"Project-Id', '"Generated-By'))]
    return "\n".join(kept).encode()


def state_of(name: str, catalogue: Catalog) -> State:
    """catalogue: as `updated` returns it."""
    messages = [message for message in catalogue if message.id]
    return State(name, len(messages), tuple(m.id for m in messages if not m.string),
                 tuple(m.id for m in messages if m.string and m.fuzzy), tuple(catalogue.obsolete),
                 tuple(m.id for m in messages if m.string and not m.fuzzy and fields_in(m.id) != fields_in(m.string)))


def fields_in(text: str) -> set[str]:
    """The names in braces."""
    return set(FIELD.findall(text))
