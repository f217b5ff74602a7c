"""The glossary: every row complete, every term once, every link to a unit that is there."""

import re

from tests.notebooks import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"\| \*\*(.+?)\*\* \| (.+?) \| (.+?) \| \[(\d\d)\]\((.+?)\) \|")
ROWS = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| **")]


def test_every_row_has_a_term_its_chinese_a_sentence_and_the_unit():
    found = [ROW.fullmatch(line) for line in ROWS]
    assert len(ROWS) > 90 and all(found), [line for line, row in zip(ROWS, found, strict=True) if not row]
    for term, _, meaning, unit, link in (row.groups() for row in found):
        assert meaning.endswith((".", ")", "\".")) and len(meaning.split()) <= 30, term
        assert (GLOSSARY.parent / link).is_file() and f"/{unit}_" in link, term


def test_every_term_comes_once():
    terms = [ROW.fullmatch(line)[1].lower() for line in ROWS]
    assert len(terms) == len(set(terms))
