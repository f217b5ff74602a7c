"""In a real browser: the notebooks run, a wrong answer is answered, the formgrader shows the marks."""

import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
import psutil
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.course import Course
from tests.lab import CHROMIUM, PATIENCE_S, TOKEN, errors_of, lab, open_notebook, page, run_all
from tests.submissions import pass_whole_tensors

UNIT = "01_collectives"
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
              pytest.mark.xdist_group("browser"), pytest.mark.timeout(1200), pytest.mark.long]
SHOTS = os.environ.get("SCREENSHOTS")  # a folder to leave screenshots in


def shoot(page, name: str) -> None:
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{SHOTS}/{name}.png")


def write_cells(file: Path, sources: Sequence[str]) -> Path:
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), file)
    return file


CELLS = (
    "%load_ext utils\nimport torch\nimport torch.distributed as dist\n"
    "from utils import Predictions, figures, run_ranks, widgets",
    "def total(rank):\n    x = torch.tensor([float(rank)])\n    dist.all_reduce(x)\n    return x.item()\n\n"
    "run = run_ranks(total, 4)\nrun.results",
    "run.trace",
    "%%ranks 2\nprint(f'rank {rank} of {world_size}')\nrank",
    "widgets.ring_stepper()",
    "predict = Predictions('01_collectives')\npredict.number('sum', 'What is 0 + 1 + 2 + 3?', unit='in all')",
    "from utils.figures.editor import schedule_editor\nfrom utils.schedules import Fault, Step, Timetable, parse_schedule\n"
    "right = parse_schedule('F0 B0')\n"
    "schedule_editor(right, lambda now, *_: None if now == right else Fault(0, Step('B', 0, 0), 'too early'),\n"
    "                lambda *_: Timetable({}, 1.0, 0.0, [1]), {'F': 1.0})",
    "from utils.figures.calculators import memory_calculator, planner_panel\n"
    "from utils.models import DeepMLP\nfrom utils.models.layers import layers_of\n"
    "from utils.trace.holdings import watch_layers\n\n"
    "def watched():\n    model = DeepMLP(n_layers=2)\n    note = watch_layers(layers_of(model))\n"
    "    note('before the step')\n    model(torch.ones(4, 16)).sum().backward()",
)
PLAYERS = (  # each in a cell of its own, below the others
    "widgets.trace_player(run_ranks(total, 2).trace)",
    "widgets.causal_player(2)",
    "widgets.holdings_player({'plain': run_ranks(watched, 2).trace})",
    "widgets.schedule_player({'1F1B': lambda p, m: right},\n"
    "                        lambda *_: Timetable({Step('F', 0, 0): (0, 1)}, 1.0, 0.0, [1]))",
    "planner_panel(lambda layout: {'parameters': 1e9 / layout['tp']}, lambda layout: {'compute': 1.0},\n"
    "              {'heads': 16, 'layers': 4}, {'memory_bytes': 2e9}, 64, 64)",
    "memory_calculator({'whole': lambda psi, n: 16 * psi})",
    "widgets.routing_player([[0], [0], [1]], [[True], [False], [True]], 1, 2, 2)",
)


def test_ranks_pictures_and_widgets_in_jupyterlab(tmp_path):
    """Cells with all that differs from a kernel without a browser; whole units are run by test_notebooks."""
    file = write_cells(tmp_path / "cells.ipynb", [*CELLS, *PLAYERS])
    with lab(tmp_path) as address, page() as tab:
        open_notebook(tab, address, file.name)
        assert tab.locator("text=Jupyter news").count() == 0
        assert tab.locator(".jp-CodeCell .cm-lineWrapping").count()  # on a small screen no code ends at the edge
        assert tab.locator(".jp-TableOfContents").is_visible()
        notebook = run_all(tab, file)
        assert errors_of(notebook) == []
        tab.locator(".widget-slider .noUi-handle").first.click()
        tab.keyboard.press("ArrowRight")
        tab.wait_for_selector("img[alt*='step 2 of 3']")
        tab.fill(".schedule-text textarea", "B0 F0")
        tab.wait_for_selector("text=This cannot run. rank 0: B0")
        tab.fill("input[placeholder='your guess']", "7")
        tab.click("text=Keep my guess")
        tab.wait_for_selector("text=Your guess: 7 in all.")
        shoot(tab, "cells")
        tab.set_viewport_size({"width": 1280, "height": 8000})  # cells that are out of sight are not on the page
        for number, code in enumerate(PLAYERS, len(CELLS)):
            player = tab.locator(".jp-CodeCell").nth(number)
            answers_clicks_and_keys(tab, player, plays="player(" in code and "schedule" not in code)
        expect(player.locator("img").first).to_have_attribute("alt", re.compile("^Token 2's"))  # it has played to its end
        shown = words_of(player)
        player.locator(".cm-content").click()
        tab.keyboard.press("Control+Enter")
        expect(player.locator(".jp-InputArea-prompt")).to_have_text(f"[{len(CELLS) + len(PLAYERS) + 1}]:")
        expect(player.locator("img").first).to_have_attribute("alt", shown)  # where it was before the cell was run again
        shoot(tab, "players")
        assert filter_of(player) == "none"
        tab.evaluate("document.body.dataset.jpThemeLight = 'false'")
        assert "invert" in filter_of(player)  # in the dark theme no picture is a white field
    assert "[6.0, 6.0, 6.0, 6.0]" in notebook.cells[1].outputs[0].data["text/plain"]
    assert "<img" in "".join(notebook.cells[2].outputs[0].data["text/html"])
    assert "[rank 1] rank 1 of 2" in "".join(output.get("text", "") for output in notebook.cells[3].outputs)


def filter_of(cell: Locator) -> str:
    return cell.locator("img").first.evaluate("image => getComputedStyle(image).filter")


def words_of(cell: Locator) -> str:
    """What its picture says to those who do not see it."""
    return cell.locator("img").first.get_attribute("alt")


def answers_clicks_and_keys(tab: Page, cell: Locator, plays: bool) -> None:
    """A slider that is clicked follows the arrow keys; one that plays goes on from there, and back by the keys."""
    cell.scroll_into_view_if_needed()
    before = words_of(cell)
    cell.locator(".noUi-handle").first.click()
    tab.keyboard.press("ArrowRight")
    expect(cell.locator("img").first).not_to_have_attribute("alt", before)
    if plays:
        tab.keyboard.press("ArrowLeft")
        expect(cell.locator("img").first).to_have_attribute("alt", before)
        cell.locator(".widget-play button").first.click()
        expect(cell.locator("img").first).not_to_have_attribute("alt", before)


ENDLESS = (
    "import os, time\nfrom utils import run_ranks",
    "def endless(rank):\n    open(f'{rank}.pid', 'w').write(str(os.getpid()))\n    while True:\n"
    "        time.sleep(0.01)\n\nrun_ranks(endless, 2)",
)


def test_the_stop_button_and_a_restart_end_all_ranks(tmp_path):
    file = write_cells(tmp_path / "endless.ipynb", ENDLESS)
    pids = [tmp_path / f"{rank}.pid" for rank in range(2)]

    def run_cells() -> list[int]:
        tab.click("text=Run >> nth=0")
        tab.click("text=Run All Cells")
        waited_for(lambda: all(pid.exists() and pid.read_text() for pid in pids))
        numbers = [int(pid.read_text()) for pid in pids]
        for pid in pids:
            pid.unlink()
        return numbers

    def waited_for(condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            tab.wait_for_timeout(100)

    with lab(tmp_path) as address, page() as tab:
        open_notebook(tab, address, file.name)
        ranks = run_cells()
        assert all(map(psutil.pid_exists, ranks))
        tab.click("[data-command='notebook:interrupt-kernel']")
        tab.wait_for_selector("text=Stopped: the run was interrupted")
        shoot(tab, "stopped")
        waited_for(lambda: not any(map(psutil.pid_exists, ranks)))
        ranks = run_cells()
        tab.click("[data-command='notebook:restart-kernel']")
        tab.click("dialog.jp-Dialog .jp-mod-accept")
        waited_for(lambda: not any(map(psutil.pid_exists, ranks)))
        waited_for(lambda: "Kernel restarted" in (tmp_path / "lab.log").read_text())  # a server that ends before may hang


def test_a_guess_a_wrong_answer_its_hint_a_right_answer_and_progress(tmp_path):
    """A student's path; another day the guess is still there."""
    course = Course(tmp_path, UNIT, ["ring_all_reduce"])
    file = tmp_path / "submitted" / "ann" / UNIT / f"{UNIT}.ipynb"

    def asked(notebook):
        asks = "from utils import Predictions\npredict = Predictions('01_collectives')\npredict.number('n', 'How many?')"
        notebook.cells.insert(1, nbformat.v4.new_code_cell(asks))
        notebook.cells.append(nbformat.v4.new_code_cell("from grader import progress\nprogress()"))

    with lab(tmp_path) as address, page() as tab:
        course.submit("ann", lambda notebook: (pass_whole_tensors(notebook), asked(notebook)))
        open_notebook(tab, address, str(file.relative_to(tmp_path)))
        notebook = run_all(tab, file)
        tab.wait_for_selector("text=whole tensors travel")
        shoot(tab, "wrong-answer")
        tab.wait_for_selector("text=points: see the table above")
        assert errors_of(notebook) == []  # the cells below it are run, too
        tab.fill("input[placeholder='your guess']", "7")
        tab.click("text=Keep my guess")
        tab.wait_for_selector("text=Your guess: 7.")
        course.submit("ann", asked)
    with lab(tmp_path) as address, page() as tab:  # a new kernel
        open_notebook(tab, address, str(file.relative_to(tmp_path)))
        assert errors_of(run_all(tab, file)) == []
        tab.wait_for_selector("text=Your guess: 7.")
        tab.click("summary:has-text('The exercises of')")
        tab.wait_for_selector("text=4 of 4 points in ")  # so many tries: run_all may run all twice
        tab.wait_for_selector("text=Everything is done")
        shoot(tab, "progress")


def test_the_formgrader_marks_and_shows_the_marks_and_feedback_leaks_nothing(tmp_path):
    """Its autograde button, its tables of scores, the marked notebook; then the page that the student gets."""
    course = Course(tmp_path, UNIT, ["ring_all_gather", "ring_all_reduce"])
    course.submit("ann", pass_whole_tensors)
    with lab(tmp_path) as address, page() as tab:
        tab.goto(f"{address}/lab?token={TOKEN}")  # signs in
        tab.goto(f"{address}/formgrader/manage_submissions/{UNIT}")
        tab.click("td.autograde a")
        tab.wait_for_selector("text=Successfully autograded")
        shoot(tab, "formgrader-autograded")
        tab.goto(f"{address}/formgrader/gradebook/{UNIT}/{UNIT}")
        tab.wait_for_selector("text=Submission #1")
        assert "6" in tab.inner_text("table").split()  # of 8 points
        shoot(tab, "formgrader-marks")
        tab.click("text=Submission #1")
        tab.wait_for_selector("text=whole tensors travel")
        shoot(tab, "formgrader-notebook")
    assert course.marks()["ann"] == {"ring_all_gather": 4.0, "ring_all_reduce": 2.0}
    course.nbgrader("generate_feedback", UNIT, "--student", "ann")
    with page() as tab:
        tab.goto((tmp_path / "feedback" / "ann" / UNIT / f"{UNIT}.html").as_uri())
        shown = tab.inner_text("body")
        tab.locator("text=whole tensors travel").first.scroll_into_view_if_needed()
        shoot(tab, "feedback")
    assert "Ring all-reduce: 2 of 4 points" in shown and "Ring all-gather: 4 of 4 points" in shown
    record = json.loads((tmp_path / "autograded" / "ann" / UNIT / f"{UNIT}.marks.json").read_text())
    for case in (case for verdict in record["exercises"].values() for case in verdict["cases"]):
        assert case["name"] not in shown
        assert not any(demand["detail"] in shown for demand in case["demands"] if not demand["met"])
