"""nbgrader's page of feedback: nothing that a student typed is run in the browser of whoever opens it."""

import json
from html.parser import HTMLParser
from pathlib import Path

import nbgrader
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.course.autograde import reason
from grader.course.splice import splice
from grader.sandbox import accept
from tests.lab import CHROMIUM, page

TEMPLATES = Path(nbgrader.__file__).parent / "server_extensions" / "formgrader" / "templates"
TRAPS = (
    "<script>trapped = 1</script>",
    "<img src=x onerror='trapped = 1'>",
    "</pre></div><svg onload=trapped=1>",
    "text\n\n<details open ontoggle='trapped = 1'>\n\nmore",
    "[a link](javascript:trapped=1) <javascript:trapped=1>",
    "```\n</code></pre><script>trapped = 1</script>\n```",
    "$$\n</span><script>trapped = 1</script>\n$$ and $\\href{javascript:trapped=1}{x}$",
    "&lt;script&gt;trapped = 1&lt;/script&gt;",
    "<iframe srcdoc='<script>parent.trapped = 1</script>'></iframe>",
    "<a href='data:text/html,<script>trapped = 1</script>'>x</a>",
)


def as_page(notebook: NotebookNode) -> str:
    styles = TEMPLATES.parent / "static" / "node_modules" / "bootstrap" / "dist" / "css"
    exporter = HTMLExporter(template_name="feedback", extra_template_basedirs=[str(TEMPLATES)],
                            extra_template_paths=[str(styles)])
    facts = {"notebook": "unit", "score": 0, "max_score": 1, "late_penalty": 0}
    return exporter.from_notebook_node(notebook, resources={"nbgrader": facts})[0]


def marked() -> NotebookNode:
    """All traps, wherever a student's text can stand."""
    check = new_code_cell("check.x(x)", id="x-check", metadata={"nbgrader": {
        "grade_id": "x_check", "grade": True, "solution": True, "score": 0, "points": 1}})
    student = new_notebook(cells=[check, *map(new_markdown_cell, TRAPS), *map(new_code_cell, TRAPS)])
    notebook = splice(new_notebook(cells=[check]), student).notebook
    notebook.cells[0].metadata.nbgrader.comment = reason(
        {"points": 0, "max_points": 1, "problem": f"got {TRAPS[0]}", "hints": []})
    notebook.cells[0].outputs = accept.outputs(json.dumps(
        [{"output_type": "stream", "text": trap} for trap in TRAPS]
        + [{"output_type": "error", "ename": trap, "evalue": trap, "traceback": [trap]} for trap in TRAPS]
        + [{"output_type": "display_data", "data": {kind: trap for kind in ("text/plain", "text/html", "image/png",
                                                                            "text/markdown", "image/svg+xml")}}
           for trap in ['"><script>trapped = 1</script>', *TRAPS]]).encode())
    return notebook


class Armed(HTMLParser):
    """Collects what a browser would run, and what it would show."""

    def __init__(self, html: str):
        super().__init__()
        self.found, self.text, self._inside = [], "", ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self._inside = tag
        self.found += [(tag, name) for name, value in attributes if "trapped" in (value or "") and (
            name.startswith("on") or name in ("href", "src", "srcdoc")) and not value.startswith("data:image")]

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script" and "trapped" in data:
            self.found.append(("script", data))
        self.text += data


def test_nothing_of_a_students_runs_and_all_of_it_is_shown():
    seen = Armed(as_page(marked()))
    assert seen.found == []
    assert all(trap in seen.text for trap in TRAPS)


@pytest.mark.parametrize("record, words", [
    ({"hints": [], "cases": [{"right": True}, {"right": False}], "skipped": 1}, "1 of 3 cases are right."),
    ({"hints": [], "cases": [{"right": True}] * 2}, "All 2 cases are right, but the technique isn't as asked."),
    ({"hints": [], "cases": [{"right": True}], "instead": [{}]}, "See the check."),
    ({"hints": [["id", "Look again."]], "cases": [{"right": False}]}, "Look again."),
    ({"hints": [], "cases": []}, "See the check.")])
def test_a_reason_counts_cases_where_no_hint_is_known(record, words):
    assert reason({"points": 1, "max_points": 2, **record}).startswith(words)


def test_what_is_not_cleaned_would_run():
    assert len(Armed(as_page(new_notebook(cells=[*map(new_markdown_cell, TRAPS)]))).found) >= 5


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("clean", [True, False], ids=["as it is marked", "as it was typed"])
def test_in_a_browser(tmp_path, clean):
    notebook = marked() if clean else new_notebook(cells=[*map(new_markdown_cell, TRAPS)])
    (tmp_path / "page.html").write_text(as_page(notebook))
    with page() as tab:
        tab.route("http*://**", lambda route: route.abort())  # MathJax and fonts
        tab.goto(f"file://{tmp_path}/page.html", wait_until="load")
        tab.wait_for_timeout(500)
        assert bool(tab.evaluate("window.trapped")) is not clean
