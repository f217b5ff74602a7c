"""Write the course as a site: each unit as students get it and solved, glossary, pictures, search (`make site`)."""

import argparse
import html
import re
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.contracts import core_path
from grader.exercises import UNITS
from grader.site.execute import CannotRun, executed
from grader.site.gallery import pictures
from grader.site.pages import Link, Page, code_colours, notebook_page, picture_page, text_page, title_of
from grader.site.searching import entries, glossary_entries, index

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
STYLE, MARKER = "site.css", ".made-by-make-site"
AS_GIVEN = "As students get it: nothing has run. Open it in JupyterLab (make lab) to write and run."
SOLVED = "The reference solution, with what it printed and drew when this site was made."
FRONT = """<h1>Many Ranks, One Loss</h1>
<p>A course on LLM parallelism in Jupyter notebooks. You write the parallelism yourself; real processes run it from a
notebook cell; checks tell you, rank by rank, what is right, what is wrong and why. These pages are for reading; to run the
course, see its README.</p>"""
SHOWN = {
    "ring_timeline.png": "What a ring all-reduce of 16 MiB did on four ranks, as its trace draws it.",
    "answer.png": "What a student reads whose ring passes whole tensors around.",
}
SEARCH = """<h1>Search</h1><p id="said"></p><ul id="found"></ul>
<script src="search-index.js"></script><script src="search.js"></script>"""


class NotASite(Exception):
    """The folder to be written is in use for something else."""


def build(out: Path, units: Sequence[str], solved: bool, root: Path = ROOT) -> list[Page]:
    """Write all pages into the folder `out`, in place of an earlier site; the pages.

    solved: run the solutions, for pages of their own.  Raises: CannotRun; NotASite if something else is in the folder.
    """
    if out.exists() and not (out / MARKER).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise NotASite(f"{out} holds something else than a site: name another folder with --out, or empty this one")
    given = {unit: _read(root, "notebooks", unit) for unit in units}
    run = {}
    if solved:
        with ProcessPoolExecutor(2) as pool:  # each starts ranks of its own
            run = dict(zip(units, pool.map(executed, [_path(root, "solutions", unit) for unit in units]), strict=True))
    glossary = (root / "docs" / "glossary.md").read_text(encoding="utf-8")
    pages = [notebook_page(notebook, unit, AS_GIVEN) for unit, notebook in given.items()]
    pages += [notebook_page(notebook, f"{unit}-solved", SOLVED) for unit, notebook in run.items()]
    pages += [text_page(glossary, "glossary"), picture_page(list(pictures()), "pictures", "Pictures of the techniques"),
              Page("search", "Search", SEARCH),
              Page("index", "The course", FRONT + _table_of(given, run) + "".join(map(_figure, SHOWN)))]
    navigation = [("Units", [Link(f"{unit}.html", title_of(notebook)) for unit, notebook in given.items()]),
                  ("Solved", [Link(f"{unit}-solved.html", title_of(notebook)) for unit, notebook in run.items()]),
                  ("More", [Link("pictures.html", "Pictures of the techniques"), Link("glossary.html", "Glossary")])]
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
    return f'<figure><img src="{name}" alt="{SHOWN[name]}"><figcaption>{SHOWN[name]}</figcaption></figure>'


def _read(root: Path, folder: str, unit: str) -> NotebookNode:
    return nbformat.read(_path(root, folder, unit), as_version=4)


def _path(root: Path, folder: str, unit: str) -> Path:
    return root / folder / unit / f"{unit}.ipynb"


def main() -> None:
    """Raises: SystemExit in words for unknown units, and for a solution that does not run."""
    parser = argparse.ArgumentParser(prog="make site", description=__doc__)
    parser.add_argument("units", nargs="*", metavar="unit", help="such as 01_collectives; all, if none is named")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder, which is made anew")
    parser.add_argument("--not-solved", action="store_true", help="without the solutions, of which none is run")
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
