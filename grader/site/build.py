"""Write the course as a site: each unit as students get it and solved, glossary, pictures, search (`make site`)."""

import argparse
import html
import re
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from nbformat import NotebookNode

from grader.contracts import core_path
from grader.exercises import UNITS
from grader.site.execute import CannotRun, executed
from grader.site.gallery import pictures
from grader.site.pages import (
    Link,
    Page,
    code_colours,
    notebook_page,
    picture_page,
    text_page,
    title_of,
    with_pictures_only,
)
from grader.site.searching import entries, glossary_entries, index

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
STYLE, MARKER = "site.css", ".made-by-make-site"
AS_GIVEN = "As students get it, with the pictures that need no solution. Open it in JupyterLab (make lab) to write and run."
SOLVED = "The reference solution, with what it printed and drew when this site was made."
FRONT = """<h1>Many Ranks, One Loss</h1>
<p>This is a course on LLM parallelism in Jupyter notebooks. You write each kind of parallelism yourself, and real processes
run it from a notebook cell. Automatic checks then tell you, rank by rank, what is right, what is wrong and why. These pages
are for reading. To run the course, see its README.</p>"""
SHOWN = {  # file -> its caption; its text for who cannot see it
    "ring_timeline.png": (
        "The trace of a ring all-reduce of 16 MiB on four ranks, as a cell draws it.",
        "A timeline with a lane for each of four ranks. Short stretches of computation alternate with communication, and "
        "the ranks wait for one another at the same moments."),
    "answer.png": (
        "The check's answer to a ring that passes whole tensors around.",
        "The answer says that the values are right on every rank and that each rank has sent too many bytes. A hint says to "
        "send one chunk in each step."),
}
SEARCH = """<h1>Search</h1><p id="said"></p><ul id="found"></ul>
<script src="search-index.js"></script><script src="search.js"></script>"""


class NotASite(Exception):
    """The folder to be written is in use for something else."""


def build(out: Path, units: Sequence[str], solved: bool, root: Path = ROOT) -> list[Page]:
    """Write all pages into the folder `out`, in place of an earlier site; the pages.

    The students' notebooks are run for the pictures that need no solution.
    solved: run the solutions, too, for pages of their own.  Raises: CannotRun; NotASite if something else is in the folder.
    """
    if out.exists() and not (out / MARKER).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise NotASite(f"{out} holds something else than a site: name another folder with --out, or empty this one")
    with ProcessPoolExecutor(2) as pool:  # each starts ranks of its own
        all_of = {folder: pool.map(executed, [_path(root, folder, unit) for unit in units])
                  for folder in ("notebooks", "solutions")[:1 + solved]}
        given, run = (dict(zip(units, all_of.get(folder, ()), strict=False)) for folder in ("notebooks", "solutions"))
    glossary, notation, accuracy = ((root / "docs" / f"{name}.md").read_text(encoding="utf-8")
                                    for name in ("glossary", "notation", "planner_accuracy"))
    pages = [notebook_page(with_pictures_only(notebook), unit, AS_GIVEN) for unit, notebook in given.items()]
    pages += [notebook_page(notebook, f"{unit}-solved", SOLVED) for unit, notebook in run.items()]
    pages += [text_page(glossary, "glossary"), text_page(notation, "notation"),
              text_page(accuracy, "planner_accuracy"),
              picture_page(list(pictures()), "pictures", "Pictures of the techniques"),
              Page("search", "Search", SEARCH),
              Page("index", "The course", FRONT + _table_of(given, run) + "".join(map(_figure, SHOWN)))]
    navigation = [("Units", [Link(f"{unit}.html", title_of(notebook)) for unit, notebook in given.items()]),
                  ("Solved", [Link(f"{unit}-solved.html", title_of(notebook)) for unit, notebook in run.items()]),
                  ("More", [Link("pictures.html", "Pictures of the techniques"), Link("notation.html", "Notation"),
                            Link("planner_accuracy.html", "How far the planner is off"),
                            Link("glossary.html", "Glossary")])]
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / MARKER).touch()
    there = {page.name for page in pages}
    for page in pages:
        (out / f"{page.name}.html").write_text(page.render(navigation, there), encoding="utf-8")
    (out / STYLE).write_text((HERE / STYLE).read_text() + code_colours(), encoding="utf-8")
    for file in (HERE / "search.js", *(ROOT / "pictures" / name for name in SHOWN)):
        shutil.copy(file, out)
    found = [entry for unit, notebook in given.items() for entry in entries(notebook, unit)]
    (out / "search-index.js").write_text(index([*found, *glossary_entries(glossary, "glossary")]), encoding="utf-8")
    return pages


def _table_of(given: dict[str, NotebookNode], run: dict[str, NotebookNode]) -> str:
    """The units, each with the question that it opens with, and what of it is on the core path."""
    rows = ["<tr><th>unit</th><th>question</th><th>core path</th></tr>"]
    for unit, notebook in given.items():
        question = re.search(r"^\*\*(.+?)\*\*", notebook.cells[0].source, re.M)
        also = f' · <a href="{unit}-solved.html">solved</a>' if unit in run else ""
        rows.append(f'<tr><td><a href="{unit}.html">{html.escape(title_of(notebook))}</a>{also}</td>'
                    f"<td>{html.escape(question[1]) if question else ''}</td><td>{_core(notebook)}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def _core(notebook: NotebookNode) -> str:
    path = core_path(notebook.cells)
    return f"{path.exercises} ★, {path.minutes} min" if path.exercises else f"read, {path.minutes} min"


def _figure(name: str) -> str:
    caption, words = SHOWN[name]
    return f'<figure><img src="{name}" alt="{words}"><figcaption>{caption}</figcaption></figure>'


def _path(root: Path, folder: str, unit: str) -> Path:
    return root / folder / unit / f"{unit}.ipynb"


def main() -> None:
    """Raises: SystemExit in words for unknown units, and for a solution that does not run."""
    parser = argparse.ArgumentParser(prog="make site", description=__doc__)
    parser.add_argument("units", nargs="*", metavar="unit", help="such as 01_collectives; all, if none is named")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder, which is made anew")
    parser.add_argument("--not-solved", action="store_true", help="without the solutions")
    arguments = parser.parse_args()
    if unknown := set(arguments.units) - set(UNITS):
        sys.exit(f"there is no unit {', '.join(sorted(unknown))}; expected some of {', '.join(UNITS)}, or none for all")
    try:
        pages = build(arguments.out, sorted(arguments.units) or UNITS, not arguments.not_solved)
    except (CannotRun, NotASite) as stopped:
        sys.exit(str(stopped))
    print(f"{len(pages)} pages: open {arguments.out / 'index.html'}")


if __name__ == "__main__":
    main()
