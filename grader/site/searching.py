"""The words of units and glossary for search.js, which looks through them in the reader's browser: no server is asked."""

import json
import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from grader.site.formulas import FORMULA
from grader.site.pages import title_of

Entry = dict[str, str]  # at: page and place; title; text


def entries(notebook: NotebookNode, page: str) -> Iterator[Entry]:
    """One for each text of a notebook, under its own heading or the last one before it."""
    unit = heading = title_of(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            own = re.search(r"^#{1,3} (.+)$", cell.source, re.M)
            heading = own[1] if own else heading
            yield {"at": f"{page}.html#cell-id={cell.id}", "title": f"{unit}: {heading}" if heading != unit else unit,
                   "text": plain(cell.source)}


def glossary_entries(markdown: str, page: str) -> Iterator[Entry]:
    """One for each row of a glossary's tables, and for each paragraph."""
    for line in markdown.splitlines():
        if text := plain(line.replace("|", " ")):
            yield {"at": f"{page}.html", "title": f"Glossary: {text[:60]}", "text": text}


def plain(markdown: str) -> str:
    """The words alone."""
    text = re.sub(r"</?(?:details|summary|b|br|sub|sup)>|[#*`|]|\]\([^)]*\)|-{3,}", " ", FORMULA.sub(" ", markdown))
    return " ".join(text.replace("[", " ").split())


def index(found: Iterable[Entry]) -> str:
    """The file that search.js reads; a script, because pages opened from a disk may not load other files."""
    data = json.dumps(list(found), ensure_ascii=False)
    return f"const ENTRIES = {data};\n"
