"""The glossary: every row complete, every term once, every link to a unit that is there."""

import json
import re
from functools import cache

from grader.exercises.references import ROOT

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


def test_every_term_is_used_in_the_unit_that_its_row_names():
    missing = []
    for term, _, _, unit, _ in (ROW.fullmatch(line).groups() for line in ROWS):
        names = [name for name in re.split(r" \(|\)|, | or ", _plain(term)) if name]
        if not any(_said(name, unit) for name in names):
            missing.append(f"{unit} {term}")
    assert not missing


def _said(name: str, unit: str) -> bool:
    words = r"[\s-]+".join(re.escape(word) for word in re.split(r"[\s-]+", name))
    return re.search(rf"\b{words}", _text(unit)) is not None


@cache
def _text(unit: str) -> str:
    (path,) = ROOT.glob(f"solutions/{unit}_*/*.ipynb")
    return _plain("\n".join("".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]))


def _plain(text: str) -> str:
    return re.sub(r"[*`]", "", text).lower()
