"""make site: every link leads somewhere, nothing is asked of a network, search finds, a phone can read it."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from grader.exercises.references import ROOT
from grader.site import build, execute, formulas, gallery, pages
from tests.lab import CHROMIUM, page
from utils import figures

pytestmark = pytest.mark.xdist_group("site")
UNITS = ("01_first", "02_second")
WIDE = "one_long_name = " + "123456789 + " * 40 + "0"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course of two small units, with a solution each."""
    root = tmp_path_factory.mktemp("course")
    for unit in UNITS:
        other = next(name for name in UNITS if name != unit)
        title = (f"# {unit[:2]} · Unit\n\n**What is {unit}?** See [the other](../{other}/{other}.ipynb) and the "
                 "[glossary](../../docs/glossary.md), or [print](https://arxiv.org/abs/1910.02054).")
        rings = "## 1 · Rings\n\nA *ring* of zebras, `$code`: $\\frac1n \\ne 2$."
        cells = [new_markdown_cell(title), new_markdown_cell(rings), new_code_cell(WIDE),
                 new_code_cell("import math\nfrom pathlib import Path"),
                 new_code_cell("print(6 * 7)\nopen('left-behind', 'w')\n"
                               "display({'image/png': 'iVBORw0KGgo='}, raw=True)")]
        for folder in ("notebooks", "solutions"):
            (root / folder / unit).mkdir(parents=True)
            nbformat.write(new_notebook(cells=cells), root / folder / unit / f"{unit}.ipynb")
    (root / "docs").mkdir()
    (root / "docs" / "glossary.md").write_text(
        "# Glossary\n\n| term | meaning |\n|---|---|\n| **rank** | [01](../notebooks/01_first/01_first.ipynb) |\n")
    (root / "docs" / "notation.md").write_text("# Notation\n\nA letter means one thing.\n")
    (root / "docs" / "planner_accuracy.md").write_text("# How far the planner is off\n\nLess than before.\n")
    return root


@pytest.fixture(scope="module")
def site(course, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "site"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "pictures", lambda: [("Prefetching", figures.prefetch_figure())])
        build.build(out, UNITS, solved=True, root=course)
    return out


def addresses(file) -> list[str]:
    return re.findall(r'(?:href|src)="([^"]+)"', file.read_text())


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_a_network(site):
    assert {file.stem for file in site.glob("*.html")} == {
        "index", "search", "glossary", "notation", "planner_accuracy", "pictures", *UNITS,
        *(f"{unit}-solved" for unit in UNITS)}
    for file in site.glob("*.html"):
        text = file.read_text()
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="([^"]+)"', text) + re.findall(r"url\(", text)
        assert not [address for address in loaded if "//" in address and not address.startswith("data:")], file.name
        for address in addresses(file):
            if address.startswith(("data:", "https://")):
                continue
            name, _, place = address.partition("#")
            target = site / (name or file.name)
            assert target.is_file(), (file.name, address)
            assert not place or f'id="{place}"' in target.read_text(), (file.name, address)


def test_units_were_run_elsewhere_and_as_given_show_their_pictures_alone(site, course):
    given, solved = ((site / f"01_first{page}.html").read_text() for page in ("", "-solved"))
    assert "<pre>42" in solved and "image/png" in solved
    assert "<pre>42" not in given and "image/png" in given
    assert not list(course.rglob("left-behind"))


def test_imports_are_folded(site):
    text = (site / "01_first.html").read_text()
    folded = re.findall(r"<details>.*?</details>", text, re.S)
    assert len(folded) == 1 and "pathlib" in folded[0] and text.count("pathlib") == 1


def test_formulas_are_drawn_and_those_of_the_course_can_be(site):
    text = (site / "01_first.html").read_text()
    assert 'class="formula"' in text and 'alt="\\frac1n \\ne 2"' in text and "$code" in text
    found = 0
    for path in (ROOT / "solutions").glob("*/*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown" and "$" in cell.source:
                text = formulas.with_pictures(cell.source)
                found += text.count('class="formula"')
                assert "\\frac" not in re.sub(r"<[^>]*>", "", text), cell.id
    assert found > 8


def is_inverted(tab):
    """Whether the page's picture is turned dark, on a light screen and on a dark one."""
    found = []
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        found.append("invert" in tab.locator("img.drawn").first.evaluate("image => getComputedStyle(image).filter"))
    return found


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_in_a_browser_search_finds_and_a_phone_reads(site):
    with page() as tab:
        wrong = []
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
        tab.goto((site / "index.html").as_uri())
        tab.fill("nav input", "ring zebras")
        tab.press("nav input", "Enter")
        tab.wait_for_selector("#found li")
        assert tab.inner_text("#said") == "2 places" and tab.locator("#found li").count() == 2
        tab.click("#found a >> nth=0")
        tab.wait_for_url("**/01_first.html#cell-id=*")
        tab.goto((site / "search.html").as_uri() + "?q=<b>nowhere</b>")
        assert tab.inner_text("#said") == "Nothing has “<b>nowhere</b>”."
        tab.set_viewport_size({"width": 390, "height": 800})
        for name in ("index", "01_first-solved", "glossary", "pictures"):
            tab.goto((site / f"{name}.html").as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than a phone"
        assert is_inverted(tab) == [False, True]
        assert not tab.is_visible("nav")
        tab.click("header label")
        assert tab.is_visible("nav")
        assert wrong == []


def test_an_earlier_site_is_replaced_and_nothing_else(site, course, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "pictures", lambda: [])
    (tmp_path / "site.css").write_text("mine")
    with pytest.raises(build.NotASite, match="name another folder"):
        build.build(tmp_path, UNITS, solved=False, root=course)
    assert (tmp_path / "site.css").read_text() == "mine"
    out = tmp_path / "site"
    for units in (UNITS, UNITS[:1]):
        build.build(out, units, solved=False, root=course)
    text = (out / "01_first.html").read_text()
    assert "the other" in text and f"{UNITS[1]}.html" not in text
    assert not (out / f"{UNITS[1]}.html").exists() and "Solved" not in (out / "index.html").read_text()


def test_a_solution_that_stops_is_named(course, tmp_path):
    broken = tmp_path / "solutions" / "03_broken" / "03_broken.ipynb"
    broken.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), broken)
    with pytest.raises(execute.CannotRun, match=r"03_broken stopped:[\s\S]*ZeroDivisionError"):
        execute.executed(broken)


def test_a_widget_is_its_still_picture():
    output = new_output("display_data", {pages.WIDGET: {"model_id": "1"}, "text/html": "<p>still</p>"})
    notebook = new_notebook(cells=[new_markdown_cell("# A unit"), new_code_cell("widget", outputs=[output])])
    body = pages.notebook_page(notebook, "a").body
    assert "still" in body and "model_id" not in body


def test_the_links_of_the_course_are_links_of_the_site():
    """As test_every_link… for the real units, without making their pages."""
    targets = {path.stem for path in (ROOT / "notebooks").glob("*/*.ipynb")} | {"glossary", "notation", "planner_accuracy"}
    texts = [(ROOT / "docs" / "glossary.md").read_text()]
    for path in (ROOT / "solutions").glob("*/*.ipynb"):
        texts += [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    links = {link for text in texts for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")}
    assert len(links) > 10
    for link in links:
        name = re.fullmatch(r'href="(\w+)\.html(#.*)?"', pages._linked(f'href="{link}"'))
        assert name and name[1] in targets, link


def test_the_gallery_has_a_picture_of_each_technique():
    names = " ".join(name for name, _ in gallery.pictures()).lower()
    for technique in ("broadcast", "ring", "all-to-all", "data parallel", "zero-1", "zero-2", "zero-3", "tensor", "pipeline",
                      "1f1b", "interleaved", "sequence", "recomputation", "ring attention", "mesh"):
        assert technique in names
