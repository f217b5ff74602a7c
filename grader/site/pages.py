"""One page of the site: a notebook, a text or pictures, with navigation around it."""

import ast
import copy
import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from pygments.formatters.html import HtmlFormatter

from grader.judging.html import fill_in
from grader.site.formulas import with_pictures
from utils.figures import Picture

LINK = re.compile(r'<a href="(\w+)\.html(?:#[^"]*)?">(.*?)</a>', re.S)
WIDGET = "application/vnd.jupyter.widget-view+json"  # needs a kernel; a widget's still picture stands beside it
LINKS = (  # of the notebooks, and where they lead on the site
    (re.compile(r'href="(?:[./]*docs/)?(\w+)\.md(#[^"]*)?"'), r'href="\1.html"'),
    (re.compile(r'href="(?:\.\./)+(?:notebooks/)?(\w+)/\1\.ipynb(#[^"]*)?"'), r'href="\1.html"'),
)


@dataclass(frozen=True)
class Link:
    """An entry of a navigation: where it leads, and its words."""

    target: str
    text: str


@dataclass(frozen=True)
class Page:
    """A page without what surrounds it.  name: of its file, without .html; sections: of its own contents."""

    name: str
    title: str
    body: str
    sections: tuple[Link, ...] = ()
    note: str = ""

    def render(self, navigation: Sequence[tuple[str, Sequence[Link]]], there: Collection[str]) -> str:
        """The whole page. navigation: (heading, links) one after the other; there: the pages that links may lead to."""
        body = LINK.sub(lambda link: link[0] if link[1] in there else link[2], self.body)
        return fill_in(str(Path(__file__).with_name("page.html")), page=replace(self, body=body), navigation=navigation)


def notebook_page(notebook: NotebookNode, name: str, note: str = "") -> Page:
    """A notebook as it stands, with the outputs that it has.  note: a sentence above it."""
    title, sections = title_of(notebook), sections_of(notebook)
    notebook = copy.deepcopy(notebook)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_pictures(cell.source)
        elif _only_imports(cell):
            cell.update(new_markdown_cell(f"<details><summary>Imports</summary>\n\n```python\n{cell.source}\n```\n\n</details>",
                                          id=cell.id))
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
    body, _ = HTMLExporter(template_name="basic", anchor_link_text="").from_notebook_node(notebook)
    return Page(name, title, _linked(body), sections, note)


def with_pictures_only(notebook: NotebookNode) -> NotebookNode:
    """The same without what cells printed, among it that a function is not written yet."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if "image/png" in output.get("data", {})]
    return notebook


def _only_imports(cell: NotebookNode) -> bool:
    """Whether a code cell has nothing to read but imports."""
    try:
        statements = ast.parse(cell.source).body
    except SyntaxError:  # a magic
        return False
    return bool(statements) and all(isinstance(one, (ast.Import, ast.ImportFrom)) for one in statements)


def text_page(markdown: str, name: str) -> Page:
    """A text in Markdown; its first line is the title."""
    title = markdown.lstrip().partition("\n")[0].lstrip("# ")
    return Page(name, title, _linked(markdown2html(markdown)))


def picture_page(pictures: Sequence[tuple[str, Picture]], name: str, title: str) -> Page:
    """Pictures one below the other, each with its heading; who cannot see it hears its words."""
    parts = [f'<section id="picture-{number}"><h2>{html.escape(heading)}</h2>{picture._repr_html_()}</section>'
             for number, (heading, picture) in enumerate(pictures)]
    sections = tuple(Link(f"#picture-{number}", heading) for number, (heading, _) in enumerate(pictures))
    return Page(name, title, f"<h1>{html.escape(title)}</h1>" + "".join(parts), sections)


def title_of(notebook: NotebookNode) -> str:
    """Its first heading."""
    return re.search(r"^# (.+)$", notebook.cells[0].source, re.M)[1]


def sections_of(notebook: NotebookNode) -> tuple[Link, ...]:
    """Its parts: headings of the second order, by the cells that they stand in."""
    texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    headings = [(cell.id, re.search(r"^## (.+)$", cell.source, re.M)) for cell in texts]
    return tuple(Link(f"#cell-id={id}", heading[1]) for id, heading in headings if heading)


def code_colours() -> str:
    """Style sheets for highlighted code, for light pages and for dark ones."""
    light, dark = (HtmlFormatter(style=style).get_style_defs(".highlight") for style in ("default", "github-dark"))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _linked(body: str) -> str:
    for pattern, target in LINKS:
        body = pattern.sub(target, body)
    return body
